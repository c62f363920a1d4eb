"""Whether the audit is whole: every event where it was written, as it was written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from matins.errors import InvalidInput
from matins.model.principal import Principal
from matins.service.base import UseCases
from matins.service.rights import needs
from matins.store.chain import faults

_SEAL = re.compile(r"[0-9]{1,19}:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Audit:
    events: int
    chains: int
    seal: str | None
    """The newest, to be noted down elsewhere; None while there is none."""
    faults: tuple[str, ...]
    """The first bad row of each chain, and what is wrong with the seals."""

    @property
    def whole(self) -> bool:
        return not self.faults


class Auditing(UseCases):
    @needs("read")
    def audit(self, principal: Principal, seal: str | None = None) -> Audit:
        """Look at every event and seal. `seal`: one that was noted down elsewhere, which must still be there."""
        if seal is not None and not _SEAL.fullmatch(seal):
            hint = "a number, a colon and 64 hexadecimal digits, as `matins audit seal` prints it"
            raise InvalidInput(f'"{seal}" is not a seal', value=seal, field="seal", hint=hint)
        with self._store.reading() as transaction:
            events, writers, seals = transaction.audit()
        found = list(faults(events, writers, seals))
        known = [f"{number}:{bytes(link).hex()}" for number, _, _, link in seals]
        if seal is not None and seal not in known:
            found.append(f"seal {seal.partition(':')[0]}: it is gone or changed since it was noted down")
        chains = len({event.writer for event in events})
        return Audit(len(events), chains, known[-1] if known else None, tuple(found))

    @needs("read")
    def verify_audit(self, principal: Principal, seal: str | None = None) -> list[str]:
        """What is wrong with the event chains and seals; nothing when all is well. With a seal that was noted down
        elsewhere, a history that was cut short is found out too."""
        return list(self.audit(principal, seal).faults)

    @needs("read")
    def last_seal(self, principal: Principal) -> str | None:
        """The newest seal, to be noted down elsewhere; None while there is none."""
        return self.audit(principal).seal
