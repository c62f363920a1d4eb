"""What the surfaces keep, on every store."""

from __future__ import annotations

from store_records import NOW

from matins.chat._rows import ChatRows
from matins.chat.rows import ChatPost, DraftRow
from matins.model.access import Token
from matins.model.rows import FileEntry
from matins.store import Store


def test_tokens(store: Store) -> None:
    whole = Token("a1", "h" * 64, "laptop", "owner", None, NOW, "owner", None)
    part = Token("b2", "i" * 64, "ci", "operator", ("read", "run"), NOW + 1, "owner", NOW + 9)
    with store.transaction(NOW) as transaction:
        transaction.insert_token(part)
        transaction.insert_token(whole)
    with store.transaction(NOW) as transaction:
        assert transaction.tokens() == [whole, part]
        assert transaction.revoke_token("a1", NOW + 5)
        assert not transaction.revoke_token("a1", NOW + 6)
        transaction.touch_token("b2", NOW + 7)
    with store.reading() as transaction:
        assert transaction.token("a1") == whole._replace(revoked_at=NOW + 5)
        assert transaction.token("b2") == part._replace(used_at=NOW + 7)
        assert transaction.token("c3") is None


def test_a_request_is_answered_once(store: Store) -> None:
    with store.transaction(NOW) as transaction:
        assert transaction.begin_request("ann", "k", "d1", NOW)
        assert not transaction.begin_request("ann", "k", "d2", NOW)
        assert transaction.begin_request("bob", "k", "d2", NOW)
    with store.transaction(NOW) as transaction:
        found = transaction.idempotent_request("ann", "k")
        assert found is not None
        assert (found.digest, found.status) == ("d1", None)
        transaction.store_response("ann", "k", 201, '{"id": "1"}')
        transaction.delete_request("bob", "k")
    with store.transaction(NOW) as transaction:
        found = transaction.idempotent_request("ann", "k")
        assert found is not None
        assert (found.status, found.response) == (201, '{"id": "1"}')
        assert transaction.idempotent_request("bob", "k") is None
        transaction.delete_requests(NOW)
        assert transaction.idempotent_request("ann", "k") is not None
        transaction.delete_requests(NOW + 1)
        assert transaction.idempotent_request("ann", "k") is None


def test_what_a_file_defines(store: Store) -> None:
    first = FileEntry("schedule", "scout/morning", "matins", "/etc/matins.yaml", 12, "d1")
    with store.transaction(NOW) as transaction:
        transaction.upsert_file_entries([first, FileEntry("agent", "scout", "matins", "/etc/matins.yaml", 3, "d2")])
        transaction.upsert_file_entries([first._replace(line=14)])
    with store.transaction(NOW) as transaction:
        assert [entry.line for entry in transaction.file_entries()] == [3, 14]
        assert transaction.file_entry("schedule", "scout/morning") == first._replace(line=14)
        transaction.delete_file_entries([("schedule", "scout/morning")])
        assert transaction.file_entry("schedule", "scout/morning") is None


def test_drafts_posts_and_places_of_chat(store: Store) -> None:
    """C14: a draft, a card and the place of a thread outlive the process that wrote them."""
    draft, post = (
        DraftRow("slack:T/C/1", "ada", "{}", NOW + 9),
        ChatPost("slack", "approval:1", "C", "1.5", "d1", None, NOW),
    )
    with store.transaction(NOW) as transaction:
        chat = ChatRows(transaction)
        chat.upsert_draft(draft._replace(draft="1"))
        chat.upsert_draft(draft)
        chat.upsert_draft(draft._replace(person="ben", expires_at=NOW - 1))
        chat.delete_drafts(NOW)
        chat.insert_post(post)
        chat.insert_post(post._replace(digest="again"))
        chat.insert_post(post._replace(subject="run:1", at=NOW - 9))
        threads = [transaction.insert_thread("scout", "C", None, None, None, NOW) for _ in range(2)]
        for thread in threads:
            chat.set_place(thread, "slack:T/C/0")
            chat.set_place(thread, "slack:T/C/1")
        transaction.assign_thread(7, threads[0], "fresh")
        transaction.assign_thread(8, threads[0], "thread")
    with store.transaction(NOW) as transaction:
        chat = ChatRows(transaction)
        assert chat.draft("slack:T/C/1", "ada") == draft
        assert chat.draft("slack:T/C/1", "ben") is None
        assert chat.posts("slack", "approval:1") == [post]
        chat.set_post(post._replace(digest="d2", via="ada"))
        chat.delete_posts(NOW)
        assert chat.posts("slack", "run:1") == []
        assert chat.posts("slack", "approval:1") == [post._replace(digest="d2", via="ada")]
        assert transaction.thread_place(threads[1]) == "slack:T/C/1"
        assert (chat.thread_at("slack:T/C/1"), chat.thread_at("slack:T/C/0")) == (threads[1], None)
        assert (transaction.last_run_in(threads[0]), transaction.last_run_in(threads[1])) == (8, None)
        assert chat.delete_draft("slack:T/C/1", "ada")
        assert not chat.delete_draft("slack:T/C/1", "ada")
