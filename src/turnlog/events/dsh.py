"""dsh's other known event types (dsh-v0 §1.3 rows 14-48, dsh-formats §7), kept as the JSON they are.

Each has a class of its own, so that ``match``, ``select`` and ``append`` name it: ``InboxSpliced(value={…})``.
"""

from __future__ import annotations

from .payload import OpaquePayload


class InboxSpliced(OpaquePayload, type="agent/inbox/spliced"):
    """Pending input changed: ``{target, start, removedCount?, inserted, outcome?}``."""


class AgentPresetSelected(OpaquePayload, type="agent-preset/selected"):
    """``{agentPreset}``."""


class ApprovalAsked(OpaquePayload, type="approval/asked"):
    """A person is asked: ``{id, toolName, callId?, reason?}``."""


class ApprovalDecided(OpaquePayload, type="approval/decided"):
    """The answer: ``{id, outcome}``; allowed-once, rejected, cancelled or unavailable."""


class ApprovalPolicy(OpaquePayload, type="approval/policy"):
    """``{policy, source?}``; ask or never."""


class CommandRun(OpaquePayload, type="command/run"):
    """A person's command was accepted: ``{commandId, name, args?, source}``."""


class CommandDone(OpaquePayload, type="command/done"):
    """It finished: ``{commandId, kind, text?, sourceEventSeq?}``."""


class CompactionStart(OpaquePayload, type="compaction/start"):
    """``{compactionId, sourceCommandId?, turn}``."""


class CompactionSummary(OpaquePayload, type="compaction/summary"):
    """What the summariser wrote and what it shadows."""


class CompactionEnd(OpaquePayload, type="compaction/end"):
    """``{compactionId, sourceCommandId?, turn, error?}``."""


class CompactionPrune(OpaquePayload, type="compaction/prune"):
    """``{shadowedRange, shadowedSeqs, shadowedTokenCount}``; the replaced tool result follows."""


class FeedbackRecord(OpaquePayload, type="feedback/record"):
    """``{text}``."""


class GoalChange(OpaquePayload, type="goal/change"):
    """A goal was created, edited, paused, resumed, completed, blocked or cleared."""


class HookInvoked(OpaquePayload, type="hook/invoked"):
    """``{turn, point, dialect, matcher?, handlerId}``."""


class HookResult(OpaquePayload, type="hook/result"):
    """``{turn, point, handlerId, decision, exitCode?, stderrSummary?, durationMs}``."""


class LlmRetry(OpaquePayload, type="llm/retry"):
    """A failed attempt will be repeated after a wait."""


class LlmRetryStarted(OpaquePayload, type="llm/retry-started"):
    """The wait is over: ``{retryId, turn, step, retry}``."""


class PermissionPreset(OpaquePayload, type="permission/preset"):
    """``{preset}``."""


class PlanMode(OpaquePayload, type="plan/mode"):
    """``{active}``."""


class SandboxMode(OpaquePayload, type="sandbox/mode"):
    """``{mode, source?}``."""


class ScheduleChange(OpaquePayload, type="schedule/change"):
    """A scheduled prompt was created, deleted or dispatched."""


class SessionTitle(OpaquePayload, type="session/title"):
    """``{title, messageSeqs, source}``."""


class SessionTitleLlmRequest(OpaquePayload, type="session/title-llm-request"):
    """The title provider's own model call."""


class SubagentDescriptor(OpaquePayload, type="subagent/descriptor"):
    """What a child session was started as."""


class TeamMember(OpaquePayload, type="team/member"):
    """``{version, teamId, member}``."""


class TeamTask(OpaquePayload, type="team/task"):
    """``{version, teamId, task}``."""


class TeamMessageQueued(OpaquePayload, type="team/message/queued"):
    """``{version, teamId, message}``."""


class TeamMessageDelivered(OpaquePayload, type="team/message/delivered"):
    """``{version, teamId, messageId, targetId}``."""


class WorkflowRunStart(OpaquePayload, type="tool-workflow/run-start"):
    """``{runId, name}``."""


class WorkflowAgentStart(OpaquePayload, type="tool-workflow/agent-start"):
    """``{runId, seq, label, phase?, childId}``."""


class WorkflowAgentEnd(OpaquePayload, type="tool-workflow/agent-end"):
    """``{runId, seq, outcome}``."""


class WorkflowRunEnd(OpaquePayload, type="tool-workflow/run-end"):
    """``{runId, stopReason}``."""


class CodeDispatchStart(OpaquePayload, type="tool/code-dispatch-start"):
    """A code-mode sub-call starts."""


class CodeDispatch(OpaquePayload, type="tool/code-dispatch"):
    """A code-mode sub-call finished."""


class WebSearchLlmRequest(OpaquePayload, type="web/deepseek-search-llm-request"):
    """The web search tool's own model call."""


KNOWN = (
    InboxSpliced, AgentPresetSelected, ApprovalAsked, ApprovalDecided, ApprovalPolicy, CommandRun, CommandDone,
    CompactionStart, CompactionSummary, CompactionEnd, CompactionPrune, FeedbackRecord, GoalChange, HookInvoked,
    HookResult, LlmRetry, LlmRetryStarted, PermissionPreset, PlanMode, SandboxMode, ScheduleChange, SessionTitle,
    SessionTitleLlmRequest, SubagentDescriptor, TeamMember, TeamTask, TeamMessageQueued, TeamMessageDelivered,
    WorkflowRunStart, WorkflowAgentStart, WorkflowAgentEnd, WorkflowRunEnd, CodeDispatchStart, CodeDispatch,
    WebSearchLlmRequest,
)  # fmt: skip
"""The 35 types of dsh's plugins that format 0 writers may use."""
