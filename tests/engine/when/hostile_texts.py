"""Texts that nobody should be able to hang or crash the parser with, and a seeded source of more."""

from __future__ import annotations

from random import Random

HONEST = [
    "*/5 * * * *",
    "0 9 * * 1-5",
    "30 2 29 2 *",
    "0 0 L * ?",
    "0 0 15W,LW JAN-MAR *",
    "0 18 ? * FRI#2,5L",
    "*/20 0 0,12 * * *",
    "@daily",
    "5m",
    "90s",
    "1d",
    "every 5 minutes",
    "every weekday at 9am",
    "every other tuesday at 14:30",
    "daily at 9am and 5pm",
    "on the 1st of every month at noon",
    "last friday of the month at 18:00",
    "every hour between 9 and 17 on weekdays",
    "in 2 hours",
    "tomorrow at 14:00",
    "next monday at 9",
    "every 3 months on the 1st at 09:00 starting 2026-03-24",
    "2026-03-29T01:30:00",
    "2026-03-29T01:30:00+02:00",
    "DTSTART:20260101T090000Z\nRRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9,17;BYMINUTE=0;COUNT=10",
    "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;WKST=SU;UNTIL=20301231T000000Z",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYSETPOS=1",
    "0 30 9 15-L * MON 2027-2030",
    "OnCalendar=Mon..Fri *-*-01..07/2 09,17:00/15:30",
    "OnCalendar=2027..2031-05~07/1 04:05",
    "DTSTART:20260101T090000\nRRULE:FREQ=YEARLY;BYWEEKNO=1,-1;BYYEARDAY=1,-1;BYSECOND=30\nEXDATE:20260101,20270101T090030",
    "FREQ=SECONDLY;INTERVAL=10;BYHOUR=9",
]

HUGE = ["9" * 18, "9" * 30, "9" * 400, "1" + "0" * 900, "0" * 500 + "1", "-" + "9" * 20, "1e308", "0x10", "1_0"]

NASTY = [
    "",
    " ",
    "\x00",
    "\x00 * * * *",
    "* * * *\x00 *",
    "\n",
    "\t\t\t\t",
    "\u200b* * * * *",
    "*\u00a0*\u2003*\u3000*\u2028*",
    "\ufeff0 9 * * *",
    "٥ * * * *",
    "५ * * * *",
    "\uff15 * * * *",
    "² * * * *",
    "every ٥ minutes",
    "in ۵ hours",
    "٥m",
    "²m",
    "\ud800 * * * *",
    "every \ud83d minutes",
    "*/0 * * * *",
    "*/-1 * * * *",
    "* */0 * * *",
    "0-59/0 * * * *",
    "5-1 * * * *",
    "99 * * * *",
    "1- * * * *",
    "-1 * * * *",
    "-- * * * *",
    ", * * * *",
    "1,,2 * * * *",
    "*/ * * * *",
    "/5 * * * *",
    "** * * * *",
    "*-* * * * *",
    "1-2-3 * * * *",
    "1/2/3 * * * *",
    "# * * * *",
    "0 0 W * *",
    "0 0 0W * *",
    "0 0 WL * *",
    "0 0 LL * *",
    "0 0 L-400 * *",
    "0 0 * * L",
    "0 0 * * #",
    "0 0 * * 1#0",
    "0 0 * * 1#99999999999999999999",
    "0 0 * * 9L",
    "0 0 30 2 *",
    "0 0 31 2,4,6 *",
    "0 0 30W 2 *",
    "0 0 29 2 1#5",
    "0 0 29 2 */7",
    "0 0 31 2 ?",
    "0 0 ? ? ?",
    "? ? ? ? ?",
    "@",
    "@@@@",
    "@reboot",
    "@every 5m",
    "P5D",
    "PT0S",
    "0m",
    "-5m",
    "5.5m",
    "5x",
    "5",
    "999999999999999999d",
    "in 999999999999 days",
    "every 999999999999999 hours",
    "every 0 minutes",
    "in 0 minutes",
    "every " * 160,
    "and " * 240,
    "every monday " + "and monday " * 80 + "at 9",
    "at 9, " * 150,
    "on the 1st " * 80,
    "every day at " + ", ".join(["9am"] * 180),
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z",
    "2026-13-01",
    "2026-W01-1",
    "20260101T000000Z",
    "99999-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "2026-03-29T24:00:00",
    "2026-03-29T01:30:61Z",
    "2026-03-29T01:30:00+99:99",
    "RRULE:",
    "RRULE:FREQ=",
    "RRULE:FREQ=DAILY;FREQ=DAILY",
    "RRULE:FREQ=SECONDLY",
    "RRULE:FREQ=DAILY;INTERVAL=0",
    "RRULE:FREQ=DAILY;INTERVAL=99999999999999999999",
    "RRULE:FREQ=YEARLY;INTERVAL=9999",
    "RRULE:FREQ=WEEKLY;INTERVAL=99999999",
    "RRULE:FREQ=DAILY;COUNT=0",
    "RRULE:FREQ=DAILY;COUNT=-1",
    "RRULE:FREQ=DAILY;COUNT=999999999999999999",
    "RRULE:FREQ=DAILY;COUNT=3;UNTIL=20270101T000000Z",
    "RRULE:FREQ=DAILY;UNTIL=99991231T235959Z",
    "RRULE:FREQ=DAILY;UNTIL=00010101T000000Z",
    "RRULE:FREQ=DAILY;UNTIL=20260230T000000Z",
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=0",
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=32",
    "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-30",
    "RRULE:FREQ=YEARLY;BYDAY=54MO",
    "RRULE:FREQ=YEARLY;BYDAY=0MO",
    "RRULE:FREQ=MONTHLY;BYDAY=6MO",
    "RRULE:FREQ=DAILY;BYDAY=1MO",
    "RRULE:FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0",
    "RRULE:FREQ=MONTHLY;BYDAY=MO;BYSETPOS=366",
    "RRULE:FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2",
    "RRULE:FREQ=WEEKLY;BYMINUTE=0,1;BYSETPOS=1,4",
    "RRULE:FREQ=WEEKLY;INTERVAL=5;BYDAY=TU,FR,SU,SA;BYSETPOS=6,-6;COUNT=71",
    "RRULE:FREQ=WEEKLY;INTERVAL=2;BYMONTH=11,8,6,4;BYHOUR=17;BYMINUTE=38;BYSETPOS=4;COUNT=6",
    "RRULE:FREQ=YEARLY;INTERVAL=2;BYMONTHDAY=9,-31,26;BYDAY=37MO;BYSETPOS=3,5;COUNT=66",
    "RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYSETPOS=1",
    "RRULE:FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    "RRULE:FREQ=DAILY;INTERVAL=97;BYMONTH=2;BYMONTHDAY=29",
    "RRULE:FREQ=WEEKLY;INTERVAL=53;BYMONTH=1;BYDAY=MO",
    "RRULE:FREQ=MONTHLY;INTERVAL=12;BYMONTH=3",
    "DTSTART:00010101T000000Z\nRRULE:FREQ=DAILY",
    "DTSTART:99991231T235959Z\nRRULE:FREQ=DAILY",
    "DTSTART:17000101T000000Z\nRRULE:FREQ=DAILY;COUNT=200000",
    "DTSTART;TZID=../../etc/passwd:20260101T090000\nRRULE:FREQ=DAILY",
    "DTSTART;TZID=\x00:20260101T090000\nRRULE:FREQ=DAILY",
    "DTSTART:20260101T090000Z\nDTSTART:20260101T090000Z\nRRULE:FREQ=DAILY",
    "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nRRULE:FREQ=DAILY",
    "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nEXDATE:20260102T090000Z",
    "RRULE:FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE=" + ",".join(map(str, range(60))),
    "a" * 1000,
    "a" * 1001,
    "*" * 5000,
    "* " * 100_000,
    ",".join(["0-59"] * 190) + " * * * *",
    ",".join(["1W"] * 250) + " " * 20,
    "0 0 " + ",".join(f"{n % 31 + 1}W" for n in range(200)) + " * *",
    "0 0 * * " + ",".join(f"{n % 7}#{n % 5 + 1}" for n in range(200)),
    "((((" * 200,
    "{}" * 400,
    "%s%n%d * * * *",
    "'; DROP TABLE schedules; --",
    "<script>alert(1)</script>",
    *(f"*/{number} * * * *" for number in HUGE),
    *(f"{number} * * * *" for number in HUGE),
    *(f"0-{number} * * * *" for number in HUGE),
    *(f"{number}m" for number in HUGE),
    *(f"every {number} minutes" for number in HUGE),
    *(f"in {number} days" for number in HUGE),
    *(f"RRULE:FREQ=DAILY;INTERVAL={number}" for number in HUGE),
    *(f"RRULE:FREQ=DAILY;COUNT={number}" for number in HUGE),
]

ZONES = [
    "",
    " ",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "../../../../etc/passwd",
    "Europe",
    "Europe/",
    "Europe/London\x00",
    "Europe/London\n",
    "europe/london",
    "Mars/Olympus",
    "\ud800",
    "٥",
    "A" * 5000,
    "Europe/../Europe/London",
    "tzdata.zi",
    "UTC+25",
    "posixrules",
    "zone.tab",
    "C:\\Windows",
]

ALPHABET = " \t\n,-*/?#@:;=.LW0123456789abcxyzMONJAFREQ٥²\x00\u200b\ud800é"


def noise(random: Random) -> str:
    return "".join(random.choices(ALPHABET, k=random.randrange(1, 60)))


def spliced(random: Random) -> str:
    """The head of one honest text and the tail of another."""
    head, tail = random.sample(HONEST, 2)
    return head[: random.randrange(len(head) + 1)] + tail[random.randrange(len(tail) + 1) :]


def mutated(random: Random) -> str:
    """An honest text with a few characters lost, doubled, swapped for others, or turned into huge numbers."""
    letters = list(random.choice(HONEST))
    for _ in range(random.randrange(1, 5)):
        place = random.randrange(len(letters))
        letter = random.choice(ALPHABET)
        letters[place] = random.choice(["", letters[place] * 2, letter, letter + letters[place], random.choice(HUGE)])
    return "".join(letters)


def shuffled(random: Random) -> str:
    """Words of honest texts in any order, some many times."""
    words = " ".join(HONEST).split()
    return " ".join(random.choices(words, k=random.randrange(1, 30)))


def shuffled_rule(random: Random) -> str:
    """Parts of recurrence rules that were never meant to stand together."""
    parts = [
        f"INTERVAL={random.choice([1, 2, 3, 7, 53, 400, 9999])}",
        f"BYMONTH={random.randrange(1, 13)}",
        f"BYMONTHDAY={random.choice([1, 29, 30, 31, -1, -30, -31])}",
        f"BYDAY={random.choice(['MO', 'SU,SA', '5MO', '-1FR', '53SU', 'MO,TU,WE,TH,FR'])}",
        f"BYSETPOS={random.choice([1, -1, 2, 5, 31, 366, -366])}",
        f"BYHOUR={random.choice(['0', '2', '0,6,12,18', '23'])}",
        f"BYMINUTE={random.choice(['0', '0,30', '59'])}",
        f"WKST={random.choice(['SU', 'MO', 'TH'])}",
        f"COUNT={random.choice([1, 3, 1000, 10**6, 10**12])}",
        f"UNTIL={random.choice([1990, 2027, 2100, 9999])}0101T000000Z",
    ]
    frequency = random.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"])
    start = f"{random.choice([1601, 1970, 2024, 2026, 2500])}{random.choice(['0131', '0228', '1115'])}T093000Z"
    chosen = ";".join(random.sample(parts, random.randrange(1, 6)))
    return f"DTSTART:{start}\nRRULE:FREQ={frequency};{chosen}"


CRON_ITEMS = [
    ["*", "0", "59", "*/7", "0-5", "1-31/3", "0,59"],
    ["*", "0", "23", "*/5", "2-4", "1,2,3"],
    ["*", "?", "1", "29", "30", "31", "*/2", "L", "LW", "15W", "31W", "1-7,25-31"],
    ["*", "2", "FEB,APR", "2,4,6,9,11", "*/2", "jan-mar"],
    ["*", "?", "7", "*/7", "5L", "0#5", "MON", "SUN-SAT", "1-5,7"],
]


def shuffled_cron(random: Random) -> str:
    """Valid items, once in a while in the wrong field, and dates that may never come."""
    fields = [random.choice(items) for items in CRON_ITEMS]
    if random.random() < 0.2:
        random.shuffle(fields)
    return " ".join(fields)


SOURCES = (noise, spliced, mutated, mutated, shuffled, shuffled_rule, shuffled_cron, shuffled_cron)


def hostile_texts(seed: int, how_many: int) -> list[str]:
    random = Random(seed)
    return [random.choice(SOURCES)(random) for _ in range(how_many)]
