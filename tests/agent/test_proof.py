"""The proof of every request equals one made from derived messages alone, by other code (architecture 9)."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import turnlog
from tests.agent.harness import agent_of, call, echo, script, text
from tests.conftest import Prove
from turnlog.agent import Agent
from turnlog.events import UserMessage
from turnlog.events.lossless import plain
from turnlog.log import Session
from turnlog.log.proof import RequestProof
from turnlog.model import ScriptedModel, error
from turnlog.tools import tool


def canonical(value: Any) -> bytes:
    """RFC 8785 for what these tests say: no odd numbers, keys sorted as UTF-16."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return b"{" + b",".join(canonical(key) + b":" + canonical(value[key]) for key in keys) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(canonical, value)) + b"]"
    return json.dumps(value, ensure_ascii=False).encode()


def naive(session: Session, proof: RequestProof) -> RequestProof:
    """The proof, made from the messages and the header of the first events."""
    chain = sha256(b"").digest()
    messages = [json.loads(canonical(plain(one))) for one in session.derive_messages(at=proof.seq)]
    for message in messages:
        chain = sha256(chain + sha256(canonical(message)).digest()).digest()
    header = session.request_header(proof.seq)
    assert header is not None
    digest = sha256(canonical(plain(header))).hexdigest()
    return RequestProof(proof.seq, proof.turn, proof.step, proof.attempt, len(messages), digest, chain.hex())


class Keeper:
    """Keeps proofs, and what was sent with each."""

    def __init__(self) -> None:
        self.proofs: list[RequestProof] = []

    def keep_proof(self, proof: RequestProof) -> None:
        self.proofs.append(proof)

    def keep_note(self, text: str) -> None:
        raise AssertionError(text)

    async def durable(self, _length: int) -> Any:
        return None


def kept(agent: Agent) -> Keeper:
    keeper = Keeper()
    agent.session.attach(keeper, keeper)
    return keeper


WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
TURNS = st.lists(
    st.tuples(WORDS, st.sampled_from(["answer", "call", "fail", "tool", "prune", "summary", "note", "system"])),
    min_size=1,
    max_size=12,
)


async def converse(turns: list[tuple[str, str]]) -> tuple[Agent, Keeper]:
    system = ["start"]
    agent = agent_of(tools=[echo], system=lambda: system[0])
    keeper = kept(agent)
    for number, (word, what) in enumerate(turns):
        answers: list[Any] = [word or "."]
        session = agent.session
        match what:
            case "call":
                answers = [[text("so"), call("echo", text=word)], *answers]
            case "prune":
                answers = [[call("echo", text=word + "y" * 9000)], error("CONTEXT_WINDOW_EXCEEDED"), *answers]
            case "fail":
                answers = [[text(word), error("SERVER")], *answers]
            case "tool":
                agent.toolbox.add(_named(f"tool_{number}"))
            case "summary" if len(session.surface) > 2:
                nodes = session.surface[1 : 1 + len(word) % (len(session.surface) - 1) + 1]
                if all(session.event(seq).type != "tool/result" for seq in nodes):
                    session.append(UserMessage.of(f"S{word}"), replaces=(nodes[0], nodes[-1]), sources=nodes)
            case "note":
                session.append(UserMessage.of(word or "n"))
            case "system":
                system[0] = word
        agent._model = ScriptedModel(answers)
        await agent.run(word or "Go.")
        agent._model.assert_done()
    return agent, keeper


def _named(name: str) -> Any:
    @tool(name=name)
    async def extra() -> str:
        """Do more."""
        return ""

    return extra


def test_the_chain_equals_a_naive_one_for_any_session(prove: Prove) -> None:
    def check(turns: list[tuple[str, str]]) -> None:
        agent, keeper = asyncio.run(converse(turns))
        assert keeper.proofs
        for proof in keeper.proofs:
            assert proof == naive(agent.session, proof)

    prove("request proofs equal to naive ones: sessions", check, TURNS)


async def test_a_proof_is_attested_for_every_attempt_before_its_first_chunk() -> None:
    agent = agent_of(error("SERVER"), [call("echo", text="x")], "done", tools=[echo])
    keeper = kept(agent)
    await agent.run("Go.")

    assert [(one.turn, one.step, one.attempt) for one in keeper.proofs] == [(1, 1, 1), (1, 1, 2), (1, 2, 1)]
    for proof, request in zip(keeper.proofs, script(agent).requests, strict=True):
        assert proof.messages == len(request.messages)
        assert agent.session.event(proof.seq).type == "assistant/chunk"


async def test_a_request_that_is_refused_is_not_attested() -> None:
    from tests.agent.test_request import smuggle
    from turnlog.model.hooks import LlmStream

    agent = agent_of("never")
    keeper = kept(agent)

    async def listener(event: Any, next: Any) -> Any:
        from dataclasses import replace

        return await next(replace(event, request=smuggle(event.request)))

    agent.on(LlmStream, listener)
    await agent.run("Go.")

    assert keeper.proofs == []


async def test_a_stored_session_has_a_proof_for_every_attempt_and_verify_recomputes_them(tmp_path: Path) -> None:
    async with turnlog.open_store(tmp_path) as store:
        session = await store.create()
        agent = agent_of(error("SERVER"), [call("echo", text="x")], "done", "more", tools=[echo], session=session)
        await agent.run("One.")
        await agent.run("Two.")
    (log,) = tmp_path.rglob("session.jsonl")
    (beside,) = tmp_path.rglob("attest.jsonl")
    records = [json.loads(line) for line in beside.read_text().splitlines()]

    proofs = [one for one in records if one["type"] == "proof"]
    assert [(one["turn"], one["step"], one["attempt"]) for one in proofs] == [
        (1, 1, 1),
        (1, 1, 2),
        (1, 2, 1),
        (2, 1, 1),
    ]
    assert turnlog.verify(log).findings == ()

    beside.write_text(beside.read_text().replace(proofs[2]["chain"], "0" * 64))
    assert turnlog.verify(log).findings != ()


@pytest.mark.parametrize("form", ["plain", "replaced"])
async def test_a_resumed_agent_carries_the_chain_on(form: str) -> None:
    agent = agent_of("one", "two")
    await agent.run("One.")
    if form == "replaced":
        first, last = agent.session.surface
        agent.session.append(UserMessage.of("Summary."), replaces=(first, last), sources=(first, last))
    again = agent_of("two", "three", session=Session.resumed(agent.session))
    keeper = kept(again)
    await again.run("Two.")
    await again.run("Three.")

    assert [proof == naive(again.session, proof) for proof in keeper.proofs] == [True, True]
