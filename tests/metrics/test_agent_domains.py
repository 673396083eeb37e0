"""Agents of an airline and of a bank: what `agent` and `outcome` read must not depend on the domain.

Twelve invented dialogues, in each domain three successes and three failures.
"""

import json
from collections.abc import Iterator

import pytest

from dialeval.dialogues import Dialogue, ToolCall, Turn
from dialeval.metrics.agent import Agent
from dialeval.metrics.agent_calls import is_yes, kind_of
from dialeval.metrics.outcome import Outcome, features
from dialeval.metrics.rules import is_error

# A line is a turn: u(ser), a(ssistant), c(all) of a tool with its arguments as JSON, r(esult) of it.
CHATS = """
# airline-booked success
u: Hi, I want to fly from Lisbon to Oslo on May 20, one way, economy. My user id is noor_lind_402.
c: get_user_details {"user_id": "noor_lind_402"}
r: {"name": "Noor Lind", "dob": "1988-03-02", "payment_methods": {"credit_card_7781": {"brand": "visa"}}}
c: search_direct_flight {"origin": "LIS", "destination": "OSL", "date": "2026-05-20"}
r: [{"flight_number": "XN218", "depart": "07:10", "prices": {"economy": 412}}]
a: XN218 leaves at 07:10 and costs 412 dollars. Shall I book it with your Visa card?
u: That works for me, go ahead.
c: book_reservation {"flights": [["XN218", "2026-05-20"]], "card": "credit_card_7781", "amount": 412}
r: {"reservation_id": "Q4TR9Z", "status": "confirmed"}
a: Your reservation Q4TR9Z is confirmed. Is there anything else?
u: No, that is all. Thank you!

# airline-checked-in success
u: Please check me in for reservation MM31KX, next Friday, and give me an aisle seat.
c: get_reservation_details {"reservation_id": "MM31KX"}
r: {"reservation_id": "MM31KX", "flight_number": "XN770", "passenger": "Ida Holm"}
c: seat_map_lookup {"flight_number": "XN770"}
r: {"free": ["14C", "21D"]}
a: Seats 14C and 21D are free. Shall I check you in with 14C?
u: Sounds good.
c: check_in_passenger {"reservation_id": "MM31KX", "seat": "14C"}
r: {"boarding_pass": "sent"}
a: Done: you have seat 14C. Your bag will be transferred to your connecting flight. Anything else?
u: Perfect, that's everything. Have a nice day!

# airline-refunded success
u: My flight XN90 was cancelled by you. I'd like my money back, booking ZP77LQ.
c: get_reservation_details {"reservation_id": "ZP77LQ"}
r: {"reservation_id": "ZP77LQ", "status": "cancelled by airline", "paid": "1,240.00"}
a: I see that we cancelled it. Shall I refund 1,240.00 dollars to your card?
u: Yes please.
c: issue_refund {"reservation_id": "ZP77LQ", "amount": 1240.0}
r: 1240.0
a: The refund is on its way. Can I do anything else for you?
u: No thanks, bye!

# airline-wrong-name failure
u: I booked under the wrong name. Change the passenger of W8KKD2 from Jon to John Reyes.
c: update_reservation_passengers {"reservation_id": "W8KKD2", "name": "John Reyes", "dob": "1990-01-01"}
r: Error: number of passengers does not match
c: update_reservation_passengers {"reservation_id": "W8KKD2", "name": "John Reyes", "dob": "1990-01-01"}
r: Error: number of passengers does not match
a: I have changed the name for you.
u: The app still shows Jon. That is wrong.
c: get_reservation_details {"reservation_id": "W8KKD2"}
r: {"reservation_id": "W8KKD2", "passengers": [{"name": "Jon Reyes"}, {"name": "Ana Reyes"}]}
a: It should show up soon.
u: You did not change anything. And when will it show up?

# airline-handed-over failure
u: I want to add two bags to booking T5H2QA and also change the return to June 3.
c: get_reservation_details {"reservation_id": "T5H2QA"}
r: Error: reservation not found
a: I cannot find it. What is your user id?
u: rosa_bell_119. I also need a window seat as well.
c: get_reservation_details {"reservation_id": "T5H2QA"}
r: Error: reservation not found
c: transfer_to_human_agents {"summary": "cannot find the reservation"}
r: Transfer successful
a: You are being transferred to a human agent. Please hold on.
u: I really wanted this done here. This is frustrating.

# airline-no-voucher failure
u: Your flight XN12 left nine hours late. I would like the voucher that you promised, booking LL20PW.
c: get_reservation_details {"reservation_id": "LL20PW"}
r: {"reservation_id": "LL20PW", "user_id": "kim_or_88", "flight_number": "XN12"}
c: send_certificate {"user_id": "kim_or_88", "amount": 150}
r: Error: amount above what is allowed
a: A voucher has been sent to you.
u: I have not received anything, and for how much is it?
a: Please look into your mail.
u: There is nothing. I give up, I will write a complaint.

# bank-moved success
u: Hello, please move $1,250 from my checking account to savings.
c: list_accounts {"customer": "me"}
r: [{"id": "CHK-2201", "type": "checking"}, {"id": "SAV-9044", "type": "savings"}]
a: I can transfer $1,250.00 from CHK-2201 to SAV-9044 today. Shall I do that?
u: Yes, go ahead.
c: transfer_funds {"from": "CHK-2201", "to": "SAV-9044", "amount": 1250.0}
r: {"transfer_id": "TR5501", "status": "completed"}
a: 1,250 dollars have been transferred to your savings account. Anything else?
u: That's all, thanks!

# bank-iban success
u: I need to pay my rent: 900 euros to DE89 3704 0044 0532 0130 00, on 1 December.
c: balance_inquiry {"account": "main"}
r: 4120.50
a: Shall I schedule 900 euros to DE89 3704 0044 0532 0130 00 on 1 December?
u: Yes, correct.
c: schedule_payment {"iban": "DE89370400440532013000", "amount": 900, "date": "2026-12-01"}
r: {"payment_id": "P-31", "status": "scheduled"}
a: The payment is scheduled, and the money will be sent on 1 December. Can I help with anything else?
u: No, thank you. Goodbye.

# bank-payment-explained success
u: Why did my payment PX-118 not go through?
c: get_payment {"id": "PX-118"}
r: {"id": "PX-118", "amount": 75.10, "status": "failed", "reason": "insufficient funds"}
a: PX-118 was refused because there was not enough money in the account. Shall I try it again now?
u: Yes please, I have paid in since.
c: retry_payment {"id": "PX-118"}
r: {"id": "PX-118", "status": "completed"}
a: It went through this time. Is there anything else?
u: Great, thank you very much!

# bank-card-lost failure
u: I lost my card ending 4471. Block it and send another one to my new address as well.
c: block_card {"card": "4417"}
r: {"error": "card not found"}
a: Your card has been blocked.
u: Are you sure? I still get messages about payments with it.
c: block_card {"card": "4417"}
r: {"error": "card not found"}
a: The card is blocked, do not worry.
u: No, it is not. This does not help at all.

# bank-limit failure
u: Raise my daily limit to 3000, and can you also tell me the fee for a wire transfer?
c: set_limit {"account": "CHK-8800", "daily": 5000}
r: {"success": false, "message": "above the maximum"}
a: I'm sorry, that did not work.
u: I said 3000, not 5000. Why did you do that?
c: set_limit {"account": "CHK-8800", "daily": 5000}
r: {"success": false, "message": "above the maximum"}
a: It is not possible to change the limit. Please contact our support team.
u: That is ridiculous, nobody could help me.

# bank-statement failure
u: Send me the statements of September and October, please.
c: get_statements {"months": ["2026-08", "2026-09"]}
r: {"files": ["s-0826.pdf", "s-0926.pdf"]}
c: email_documents {"files": ["s-0826.pdf", "s-0926.pdf"]}
r: {"sent": true}
a: They are in your mail.
u: That is August. I asked for October.
c: email_documents {"files": ["s-0826.pdf", "s-0926.pdf"]}
r: {"sent": true}
a: I have sent them again.
u: The same files once more. When do I get October?
"""


def dialogues() -> Iterator[Dialogue]:
    for block in CHATS.strip().split("\n\n"):
        title, *lines = block.splitlines()
        name, outcome = title.removeprefix("# ").split()
        turns = []
        for line in lines:
            kind, text = line.split(": ", 1)
            if kind == "c":
                tool, arguments = text.split(" ", 1)
                turns.append(Turn("assistant", "", tool_calls=(ToolCall(tool, json.loads(arguments)),)))
            else:
                turns.append(Turn({"u": "user", "a": "assistant", "r": "tool"}[kind], text))
        yield Dialogue(
            name, tuple(turns), system=name.partition("-")[0], meta={"success": outcome == "success"}
        )


ALL = {one.id: one for one in dialogues()}
GOOD = [name for name, one in ALL.items() if one.meta["success"]]
BAD = [name for name in ALL if name not in GOOD]
DOMAINS = ("airline", "bank")


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_in_a_success(name: str) -> None:
    found = {row.dimension: row.value for row in Agent().score([ALL[name]])}
    assert {key for key, value in found.items() if value} == {"turns-to-goal", "calls-to-goal"}
    described = features(ALL[name], [])
    assert described["finished"] == described["last-call-worked"] == 1
    assert described["grounded"] == described["few-errors"] == described["one-request"] == 0


@pytest.mark.parametrize("name", BAD)
def test_something_is_found_in_a_failure(name: str) -> None:
    found = {row.dimension: row.value for row in Agent().score([ALL[name]])}
    assert found["same-call-again"] or found["tool-error-ignored"]
    assert features(ALL[name], [])["finished"] == 0


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_estimate_is_higher_for_every_success(domain: str) -> None:
    found = {row.dialogue_id: row.value for row in Outcome().score(ALL.values())}
    good = [found[name] for name in GOOD if name.startswith(domain)]
    bad = [found[name] for name in BAD if name.startswith(domain)]
    assert len(good) == len(bad) == 3
    assert min(good) > 2 * max(bad)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transfer_funds", "write"),
        ("transfer_to_savings", "write"),
        ("transferCustomerFunds", "write"),
        ("get_transfer_status", "read"),
        ("get_escalation_policy", "read"),
        ("transferToAgent", "hand-over"),
        ("transfer_call", "hand-over"),
        ("transfer_to_refund_agent", "hand-over"),
        ("escalate_ticket", "hand-over"),
        ("request_human", "hand-over"),
        ("check_in", "write"),
        ("checkOutGuest", "write"),
        ("check_eligibility", "read"),
        ("flight_search", "read"),
        ("balance_inquiry", "read"),
        ("enable_roaming", "write"),
        ("track_baggage", "read"),
    ],
)
def test_a_tool_is_read_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("text", "record", "failed"),
    [
        ("412", False, False),
        ("512.40", False, False),
        ("450 points", False, False),
        ("404 Not Found", False, True),
        ("503: Service Unavailable", False, True),
        ('{"id": "P1", "status": "failed"}', True, False),
        ('{"id": "P1", "status": "failed"}', False, True),
        ('{"status": "failed", "reason": "limit"}', True, True),
        ('{"status": 404}', True, True),
    ],
)
def test_a_number_or_a_record_is_no_error(text: str, record: bool, failed: bool) -> None:
    assert is_error(Turn("tool", text), record) is failed


@pytest.mark.parametrize(
    "text", ["That works, book it.", "Sounds great!", "Works for me.", "This works for us."]
)
def test_other_words_for_yes(text: str) -> None:
    assert is_yes(text)
