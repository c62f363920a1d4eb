-- Reservations and spending of runs, and the usage of budgets.

-- prune_budget_usage: delete usage of periods before a day, unless something is reserved
DELETE FROM purses WHERE period < substr(CAST(:day AS text), 1, length(period)) AND money_reserved = 0
  AND tokens_reserved = 0;

-- past_spend: the spending of the last runs of a schedule, the newest first
SELECT money, tokens FROM spend WHERE schedule_id = :id AND settled_at IS NOT NULL AND money + tokens > 0 ORDER BY run_id DESC LIMIT :limit;

-- past_step_spend: the spending of the last runs of a step, the newest first
SELECT s.money, s.tokens FROM spend s JOIN runs r ON r.id = s.run_id
WHERE s.schedule_id = :id AND s.settled_at IS NOT NULL AND s.money + s.tokens > 0 AND r.step = :step ORDER BY s.run_id DESC LIMIT :limit;

-- insert_budget_usage: add the usage of a budget in a period
INSERT INTO purses (budget, whose, period) VALUES (:budget, :of, :period) ON CONFLICT DO NOTHING;

-- budget_usage: the usage of a budget in a period
SELECT budget, whose AS "of", period, money, tokens, money_reserved, tokens_reserved FROM purses
WHERE budget = :budget AND whose = :of AND period = :period;

-- lock_budget_usage: the same, locked
SELECT budget, whose AS "of", period, money, tokens, money_reserved, tokens_reserved FROM purses
WHERE budget = :budget AND whose = :of AND period = :period /* lock */;

-- budget_usages(since: str) -> list[BudgetUsage]: all usage from a period on
SELECT budget, whose AS "of", period, money, tokens, money_reserved, tokens_reserved FROM purses
WHERE period >= :since ORDER BY budget, whose, period;

-- add_budget_usage: add to the usage of a budget
UPDATE purses SET money = money + :money, tokens = tokens + :tokens, money_reserved = money_reserved + :money_reserved,
  tokens_reserved = tokens_reserved + :tokens_reserved
WHERE budget = :budget AND whose = :of AND period = :period;

-- delete_budget_usage: delete the usage of a budget that is deleted or recounted
DELETE FROM purses WHERE budget = :budget;

-- insert_reservation: add a run's reservation in a budget
INSERT INTO reservations (run_id, budget, whose, period, money, tokens)
VALUES (:run_id, :budget, :of, :period, :money, :tokens) ON CONFLICT DO NOTHING;

-- any_reservation: whether any reservation exists
SELECT run_id FROM reservations LIMIT 1;

-- delete_reservations: delete the reservations in a budget
DELETE FROM reservations WHERE budget = :budget;

-- reservations: the reservations of a run
SELECT budget, whose, period, money, tokens FROM reservations WHERE run_id = :run_id;

-- take_reservations: delete and return the reservations of a run
DELETE FROM reservations WHERE run_id = :run_id RETURNING budget, whose, period, money, tokens;

-- reserve(run_id: int, schedule_id: int, agent: str, now: int, usage: Usage) -> None: set what a run may spend
INSERT INTO spend (run_id, schedule_id, agent, at, money_reserved, tokens_reserved, money, tokens, estimated)
VALUES (:run_id, :schedule_id, :agent, :now, :money, :tokens, 0, 0, 0)
ON CONFLICT (run_id) DO UPDATE SET at = excluded.at, money_reserved = excluded.money_reserved,
  tokens_reserved = excluded.tokens_reserved, settled_at = NULL;

-- record_spend: add the spending of an attempt to that of earlier ones
INSERT INTO spend (run_id, schedule_id, agent, at, money_reserved, tokens_reserved, money, tokens, estimated, settled_at)
VALUES (:run_id, :schedule_id, :agent, :now, 0, 0, :money, :tokens, :estimated, :now)
ON CONFLICT (run_id) DO UPDATE SET money_reserved = 0, tokens_reserved = 0, money = spend.money + excluded.money,
  tokens = spend.tokens + excluded.tokens, estimated = excluded.estimated, settled_at = excluded.settled_at;

-- spend_of: the spending of a run
SELECT money, tokens, estimated FROM spend WHERE run_id = :run_id;

-- spend_since(since: int) -> list[SpendingRow]: the spending since an instant, by schedule; `+` keeps SQLite from all of it by spend_schedule
SELECT +schedule_id AS schedule_id, agent, CAST(sum(money) AS bigint) AS money, CAST(sum(tokens) AS bigint) AS tokens,
  CAST(NULL AS bigint) AS run_id
FROM spend WHERE at >= :since GROUP BY 1, agent;

-- spend_by_run_since(since: int) -> list[SpendingRow]: the spending since an instant, by run
SELECT schedule_id, agent, money, tokens, run_id FROM spend WHERE at >= :since;

-- rename_spending(agent: str, name: str) -> None: what an agent spent is that of its new name
UPDATE spend SET agent = :name WHERE agent = :agent;

-- merge_purses(whose: str, name: str) -> None: count the usage of budgets by one also as that of another
INSERT INTO purses (budget, whose, period, money, tokens, money_reserved, tokens_reserved)
SELECT budget, :name, period, money, tokens, money_reserved, tokens_reserved FROM purses WHERE whose = :whose
ON CONFLICT (budget, whose, period) DO UPDATE SET money = purses.money + excluded.money, tokens = purses.tokens + excluded.tokens,
  money_reserved = purses.money_reserved + excluded.money_reserved, tokens_reserved = purses.tokens_reserved + excluded.tokens_reserved;

-- drop_purses(whose: str) -> None: forget the usage of budgets by one
DELETE FROM purses WHERE whose = :whose;

-- rename_reservations(whose: str, name: str) -> None: what runs have reserved is of another one
UPDATE reservations SET whose = :name WHERE whose = :whose;
