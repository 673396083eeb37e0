"""Samples of every format, written from its documented schema: found by their first record, read, kept.

A turn is a letter: u(ser), a(ssistant), s(ystem), t(ool), or * for a message that only calls tools.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from dialeval.dialogues import Dialogue, Turn, is_step, scored_turns
from dialeval.dialogues.formats import known_formats, read, write
from dialeval.dialogues.formats.reading import numbered
from dialeval.errors import DataError

SAMPLES = Path(__file__).parent / "samples"
NO_INPUT = "only the reply is in the log, not what it answers"
ANSWER = "It left the depot in Lyon this morning and should reach you tomorrow."


class Held(NamedTuple):
    """What a sample holds: format, turns of each dialogue, passages, what users said, why replies ended."""

    format: str
    turns: str
    evidence: int = 0
    feedback: str = ""
    finish: str = ""
    system: str | None = None
    instructions: bool = False
    note: str = ""


HELD = {
    "openai-tools.jsonl": Held("messages", "su*taua", instructions=True),
    "openai-stored-completions.json": Held("completions", "ua ua", finish="stop length", system="gpt-4o-2024-08-06"),  # noqa: E501
    "openai-requests.jsonl": Held("exchange", "ua", finish="content_filter", system="gpt-4o"),
    "openai-responses.jsonl": Held("responses", "u*taua", finish="max_output_tokens", system="gpt-5", instructions=True),  # noqa: E501
    "anthropic.jsonl": Held("anthropic", "uataua", 1, system="claude-sonnet-4-5", instructions=True),
    "anthropic-blocks.json": Held("anthropic", "u*tta", instructions=True),
    "anthropic-exchange.jsonl": Held("exchange", "sua", finish="max_tokens", system="claude-sonnet-4-5", instructions=True),  # noqa: E501
    "gemini.jsonl": Held("gemini", "su*taua", finish="STOP", system="gemini-2.5-flash", instructions=True),
    "langchain.jsonl": Held("langchain", "su*taua", finish="tool_calls stop", instructions=True),
    "langchain-constructor.json": Held("langchain", "su*taua", finish="tool_calls stop", instructions=True),
    "langchain-data.json": Held("bare", "su*taua", finish="tool_calls stop", instructions=True),
    "claude-export.json": Held("claude", "ua", 1),
    "bare-messages.json": Held("bare", "ua"),
    "bare-lists.jsonl": Held("messages", "ua ua"),
    "sharegpt.json": Held("sharegpt", "ua"),
    "langfuse-traces.json": Held("langfuse", "suaua", 1, "thumbs=1 thumbs=0", system="gpt-4o", instructions=True),  # noqa: E501
    "langfuse-api-page.json": Held("langfuse", "uaua", feedback="thumbs=1 thumbs=0"),
    "langfuse-observations.jsonl": Held("langfuse", "uaua", system="gpt-4o"),
    "langfuse-traces.csv": Held("langfuse", "uaua", feedback="thumbs=1"),
    "langsmith-runs.jsonl": Held(
        "langsmith", "su*taua", 1, "thumbs=1", "tool_calls stop", system="gpt-4o", instructions=True
    ),
    "otel-otlp.json": Held("otel", "su*taua", finish="tool_call stop length", system="gpt-4o", instructions=True),  # noqa: E501
    "otel-openllmetry.jsonl": Held("otel", "su*ta", finish="tool_calls stop", system="gpt-4o", instructions=True),  # noqa: E501
    "otel-events.jsonl": Held(
        "otel", "sua", finish="stop", system="gpt-4o", instructions=True, note="no session: the trace is a dialogue of its own"  # noqa: E501
    ),
    "openinference.jsonl": Held("otel", "sua", 1, system="gpt-4o", instructions=True),
    "openinference-nested.jsonl": Held("otel", "u*ta", system="gpt-4o"),
    "deepeval-cases.json": Held("deepeval", "ua u*ta", 1),
    "deepeval-run.json": Held("deepeval", "ua u*a", 2, instructions=True),
    "deepeval-turns.jsonl": Held("deepeval", "ua", 1, instructions=True),
    "ragas-multi.jsonl": Held("ragas", "uata"),
    "ragas-single.jsonl": Held("ragas", "ua", 1),
    "inspect-log.json": Held("inspect", "su*ta ua", finish="stop max_tokens", system="openai/gpt-4o", instructions=True),  # noqa: E501
    "tau.json": Held("tau", "su*tau su*ta", instructions=True),
    "tau2.json": Held("tau2", "au*ta", system="gpt-4.1", instructions=True),
    "rasa-tracker.json": Held("rasa", "u*aua"),
    "botframework.transcript.json": Held("botframework", "uaua"),
    "intercom.json": Held("intercom", "uaua", feedback="rating=5", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "intercom-list.json": Held("intercom", "uaua", feedback="rating=5", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "intercom.csv": Held("table", "ua ua"),
    "zendesk.json": Held("zendesk", "ua", feedback="thumbs=1", note="internal notes left out"),
    "zendesk-tickets.json": Held("zendesk", "ua", feedback="thumbs=1", note="internal notes left out"),
    "zendesk.csv": Held("table", "ua"),
    "zendesk-sunshine.jsonl": Held("sunshine", "ua"),
    "slack-export.json": Held("slack", "ua", feedback="thumbs=1"),
    "slack.txt": Held("text", "uau"),
    "whatsapp.txt": Held("text", "uau"),
    "whatsapp-android.txt": Held("text", "AB"),
    "chatgpt-export.json": Held("chatgpt", "ua", finish="stop", system="gpt-4o", note="other branches left out"),  # noqa: E501
    "oasst-trees.jsonl": Held("oasst", "uaua ua"),
    "oasst-messages.jsonl": Held("oasst-messages", "ua ua"),
    "arena.jsonl": Held("arena", "ua ua", feedback="preferred=0 preferred=1", system="m-a"),
    "wildchat.jsonl": Held("lmsys", "ua", system="gpt-4-0314"),
    "lmsys.jsonl": Held("lmsys", "ua", system="vicuna-13b"),
    "ultrachat.jsonl": Held("ultrachat", "uaua"),
    "ultrachat-200k.jsonl": Held("messages", "ua"),
    "prompts.csv": Held("prompts", "ua ua", feedback="rating=4 rating=2"),
    "alpaca.jsonl": Held("prompts", "ua"),
    "rag-answers.jsonl": Held("prompts", "ua", 1),
    "rows.jsonl": Held("rows", "ua ua", feedback="thumbs=1 thumbs=0"),
    "preferences.jsonl": Held("preferences", "ua ua", feedback="preferred=1 preferred=0"),
    "markdown.txt": Held("text", "uaua"),
    "blank-lines.txt": Held("text", "uaua"),
    "langfuse-trace-detail.json": Held("langfuse", "u*ta", feedback="thumbs=1"),
    "langfuse-legacy.csv": Held("langfuse", "uaua", feedback="thumbs=1 thumbs=0"),
    "langfuse-session.json": Held("langfuse", "uaua"),
    "langsmith-page.json": Held("langsmith", "sua", feedback="thumbs=1", finish="stop", system="gpt-4o", instructions=True),  # noqa: E501
    "langsmith-agent.jsonl": Held("langsmith", "u*ta", 1, finish="stop", system="gpt-4o"),
    "otel-1.37.json": Held("otel", "su*ta", finish="stop", system="gpt-4", instructions=True),
    "otel-structured.json": Held("otel", "u*ta", finish="stop", note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "otel-span-events.jsonl": Held("otel", "sua", finish="length", instructions=True, note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "otel-logs.json": Held("otel", "ua", finish="stop", note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "openinference-agent.jsonl": Held("otel", "u*ta", 1, system="m"),
    "phoenix-frame.jsonl": Held("otel", "ua", system="m"),
    "phoenix-annotations.jsonl": Held("otel", "ua", feedback="thumbs=1", system="gpt-4o"),
    "mlflow-3.json": Held("otel", "sua", 1, feedback="thumbs=1", finish="stop", system="gpt-4o", instructions=True),  # noqa: E501
    "mlflow-2.jsonl": Held("otel", "ua", note="no session: the trace is a dialogue of its own"),
    "helicone.jsonl": Held("helicone", "uaua", feedback="thumbs=1", finish="stop length", system="gpt-4o"),
    "openai-custom-tool.json": Held("messages", "su*ta", finish="refusal", system="gpt-5", instructions=True),
    "openai-functions.jsonl": Held("messages", "u*ta", feedback="thumbs=1"),
    "openai-responses-list.json": Held("responses", "u**ta", finish="max_output_tokens", system="gpt-5", instructions=True),  # noqa: E501
    "openai-conversation-items.json": Held("messages", "ua*t"),
    "openai-thread.json": Held("rows", "ua"),
    "anthropic-server-tools.json": Held("anthropic", "uatu*ta", system="claude-sonnet-4", instructions=True),
    "bedrock.jsonl": Held("bedrock", "sua", finish="end_turn", system="anthropic.claude", instructions=True, note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "bedrock-converse.jsonl": Held("anthropic", "u*ta", instructions=True),
    "gemini-tools.json": Held("gemini", "su*ta", finish="MAX_TOKENS", system="gemini-2.5", instructions=True),
    "gemini-one-content.jsonl": Held("gemini", "ua"),
    "gemini-studio.json": Held("gemini", "sua", finish="STOP", system="models/gemini-2.5-pro", instructions=True),  # noqa: E501
    "langchain-history.jsonl": Held("rows", "ua ua"),
    "langchain-history.csv": Held("rows", "ua"),
    "langgraph-checkpoint.json": Held("langgraph", "ua"),
    "deepeval-tools.json": Held("deepeval", "u*ta", 1, instructions=True),
    "ragas-samples.json": Held("ragas", "ua", 2),
    "ragas-old.csv": Held("prompts", "ua", 2),
    "inspect-epochs.json": Held("inspect", "suata ua", finish="max_tokens", system="anthropic/claude", instructions=True),  # noqa: E501
    "tau2-many-results.json": Held("tau2", "au*ttau", system="gpt-4.1", instructions=True),
    "rasa-events.jsonl": Held("rasa-events", "ua ua"),
    "botframework.transcript": Held("botframework", "aua", feedback="thumbs=0 thumbs=1"),
    "copilot-studio.json": Held("botframework", "ua", feedback="rating=5"),
    "intercom-fin.json": Held("intercom", "ua", feedback="rating=5 resolved=1"),
    "zendesk-comments.json": Held("zendesk", "ua"),
    "zendesk-chat.json": Held("zendesk-chat", "ua", feedback="thumbs=1", note="2 entries that are no messages left out"),  # noqa: E501
    "zendesk-comments.csv": Held("table", "ua", feedback="thumbs=1", note="internal notes left out"),
    "arena-kaggle.jsonl": Held("arena", "ua ua", feedback="preferred=1 preferred=0", system="gpt-4"),
    "ultrafeedback.jsonl": Held("prompts", "ua ua", system="a"),
    "prompts.tsv": Held("prompts", "ua", feedback="rating=4"),
    "sessions.csv": Held("sessions", "uaua", feedback="thumbs=1 thumbs=0"),
    "prompts-objects.jsonl": Held("prompts", "ua", feedback="thumbs=1"),
    "rag-wrapped.json": Held("prompts", "ua", 1, system="m"),
    "prompts-sides.jsonl": Held("prompts", "ua ua"),
    "messages-evidence.jsonl": Held("messages", "ua", 1),
    "messages-completion.jsonl": Held("messages", "ua ua"),
    "prompts-history.jsonl": Held("prompts", "uauaua"),
    "rows-nested.jsonl": Held("rows", "ua", feedback="thumbs=0"),
    "rows-direction.csv": Held("table", "ua"),
    "rows-is-bot.csv": Held("table", "ua"),
    "rows-newest-first.jsonl": Held("rows", "ua"),
    "rows-tools.csv": Held("table", "u*ta", feedback="rating=4"),
    "named-lists.json": Held("messages", "ua ua"),
    "llamaindex-store.json": Held("messages", "u*ta"),
    "llamaindex.jsonl": Held("messages", "u*ta"),
    "llamaindex-response.jsonl": Held("prompts", "ua", 1),
    "vercel-5.json": Held("messages", "u*tta"),
    "vercel-4.json": Held("bare", "u*ta"),
    "vercel-model.jsonl": Held("messages", "u*ta"),
    "dialogflow-cx.json": Held("dialogflow", "u*ta", feedback="thumbs=0"),
    "dialogflow-responses.jsonl": Held("dialogflow", "uaua"),
    "dialogflow-es.jsonl": Held("dialogflow", "ua"),
    "lex.jsonl": Held("lex", "uauaa"),
    "connect.json": Held("connect", "uaa", note="1 entries that are no messages left out"),
    "connect-lens.json": Held("connect", "ua"),
    "botpress.json": Held("rows", "ua"),
    "discord.json": Held("discord", "ua", feedback="thumbs=1", note="1 entries that are no messages left out"),  # noqa: E501
    "slack-channel.json": Held("slack", "ua", feedback="thumbs=0", note="messages outside of threads are read as one dialogue"),  # noqa: E501
    "slack-blocks.json": Held("slack", "ua"),
    "whatsapp-de.txt": Held("text", "ua"),
    "whatsapp-us.txt": Held("text", "ua"),
    "whatsapp-jp.txt": Held("text", "ua"),
    "whatsapp-fr.txt": Held("text", "ua"),
    "whatsapp-kr.txt": Held("text", "ua"),
    "whatsapp-es.txt": Held("text", "ua"),
    "times.txt": Held("text", "ua"),
    "headings.md": Held("text", "ua"),
    "chatml.txt": Held("text", "sua", instructions=True),
    "rows-session.jsonl": Held("claude-code", "ua", finish="end_turn", system="claude"),
    "cohere.jsonl": Held("prompts", "uaua", 1),
    # OpenAI API reference, Responses and input items (default order: newest first), November 2026
    "openai-responses-chains.jsonl": Held("responses", "u**tt*t*ta u*aua ua", evidence=1, finish="max_output_tokens refusal", system="gpt-5-2025-08-07", instructions=True),  # noqa: E501
    "openai-responses-input-items.json": Held("responses", "u*ta", system="gpt-5-2025-08-07", instructions=True),  # noqa: E501
    # OpenAI API reference, stored chat completions and the Batch API's output file, November 2026
    "openai-stored-choices.json": Held("completions", "su* a a", feedback="thumbs=1", finish="tool_calls stop length", system="gpt-4.1-2025-04-14", instructions=True, note="only the reply is in the log, not what it answers"),  # noqa: E501
    "openai-batch-output.jsonl": Held("exchange", "a", finish="stop", system="gpt-4.1-2025-04-14", note="only the reply is in the log, not what it answers"),  # noqa: E501
    "openai-batch-responses.jsonl": Held("responses", "a", system="gpt-5-2025-08-07", instructions=True, note="only the reply is in the log, not what it answers"),  # noqa: E501
    # Anthropic API reference 2023-06-01: Messages, Message Batches results (platform.claude.com/docs/en/api)
    "anthropic-citations.jsonl": Held("exchange", "suattua", evidence=1, finish="end_turn", system="claude-sonnet-4-5-20250929", instructions=True),  # noqa: E501
    "anthropic-batch-results.jsonl": Held("exchange", "a", finish="end_turn", system="claude-sonnet-4-5-20250929", note="only the reply is in the log, not what it answers"),  # noqa: E501
    "anthropic-batch-joined.jsonl": Held("exchange", "sua", finish="max_tokens", system="claude-sonnet-4-5-20250929", instructions=True),  # noqa: E501
    # Vertex AI batch prediction output, Gemini API batch mode: v1 and v1beta, November 2026
    "vertex-batch.jsonl": Held("exchange", "su*tta ua", finish="STOP SAFETY", system="gemini-2.5-flash@default", instructions=True),  # noqa: E501
    "gemini-batch.jsonl": Held("exchange", "a", finish="STOP", system="gemini-2.5-flash", note="only the reply is in the log, not what it answers"),  # noqa: E501
    # OpenTelemetry semantic conventions 1.38, docs/gen-ai/non-normative/examples-llm-calls.md; events: 1.36
    "otel-1.38.json": Held("otel", "su*ttau*ta u", finish="tool_call stop stop", system="gpt-4.1-2025-04-14", instructions=True),  # noqa: E501
    "otel-choices.jsonl": Held("otel", "su*ta", feedback="thumbs=1", finish="tool_calls stop", system="gpt-4", instructions=True),  # noqa: E501
    "otel-details.json": Held("otel", "ua", finish="stop", system="gpt-4.1"),
    # Jaeger's JSON of traces (data, spans, tags, logs); telemetry of Vercel's AI SDK 5 (ai.prompt)
    "jaeger.json": Held("otel", "uaua", finish="stop stop", system="gpt-4"),
    "otel-vercel.jsonl": Held("otel", "sua", finish="stop", system="gpt-4.1", instructions=True),
    # OpenInference 1.x, spec/semantic_conventions.md, multimodal_attributes.md; Phoenix's data frame
    "phoenix-spans.jsonl": Held("otel", "sua", evidence=1, system="gpt-4o", instructions=True),
    "openinference-otlp.json": Held("otel", "u*tta", finish="end_turn", system="claude-sonnet-4-5"),
    # Langfuse API v3 (traces, list of traces), export of the table, observations_v2 of the blob export
    "langfuse-v3.json": Held("langfuse", "su*ttau sua", feedback="thumbs=0 rating=4 thumbs=1", system="gpt-4.1", instructions=True),  # noqa: E501
    "langfuse-v3-list.json": Held("langfuse", "uaua"),
    "langfuse-table.csv": Held("langfuse", "uaua ua", feedback="thumbs=1 thumbs=0", note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "langfuse-blob.jsonl": Held("langfuse", "sua", system="gpt-4.1", instructions=True),
    # LangSmith run format (docs.langchain.com/langsmith/run-data-format), langchain-core 1.x constructor form
    "langsmith-threads.jsonl": Held("langsmith", "u*ttaua u", evidence=1, feedback="thumbs=0", finish="tool_calls stop", system="gpt-4.1", note="no session: the trace is a dialogue of its own"),  # noqa: E501
    # LangGraph platform API: thread state, history (newest first) and threads, November 2026
    "langgraph-history.json": Held("langgraph", "u*ta"),
    "langgraph-threads.json": Held("langgraph", "u*ta"),
    # Vercel AI SDK: UIMessage of 5 and 6 (tool-NAME parts, states), Message of 4 (toolInvocations)
    "vercel-6.json": Held("messages", "uatta"),
    "vercel-4-chats.jsonl": Held("messages", "u*ta"),
    # OpenAI Assistants API v2, list of thread messages; Agents SDK 0.x: exported traces and session items
    "openai-thread-page.json": Held("rows", "uaua", finish="max_tokens"),
    "agents-trace.jsonl": Held("agents", "su*ta", system="gpt-4.1", instructions=True),
    "agents-items.json": Held("bare", "u*ta"),
    # W&B Weave call objects (trace server interface: op_name, inputs, output, thread_id), 0.52
    "weave.jsonl": Held("weave", "su*ta", feedback="thumbs=0", finish="tool_calls stop", system="gpt-4.1-2025-04-14", instructions=True),  # noqa: E501
    # LiteLLM proxy: rows of LiteLLM_SpendLogs (messages, response, proxy_server_request), 1.7x
    "litellm.jsonl": Held("completions", "suaua", finish="stop length", system="gpt-4.1-2025-04-14", instructions=True),  # noqa: E501
    # Helicone: @helicone/export 1.0 with --include-body (docs.helicone.ai/tools/export)
    "helicone-export.jsonl": Held("helicone", "sua uaua", feedback="thumbs=0", finish="end_turn stop stop", system="claude-sonnet-4-5", instructions=True, note="no session: the trace is a dialogue of its own"),  # noqa: E501
    # Amazon Bedrock user guide, model invocation logging, schema 1.0: Converse, streamed events, errors
    "bedrock-log.jsonl": Held("bedrock", "ua su*tta", finish="max_tokens end_turn", system="anthropic.claude-sonnet-4-5-20250929-v1:0", instructions=True, note="no session: the trace is a dialogue of its own"),  # noqa: E501
    # Mistral chat completions and Cohere Chat v2 and v1, from their API references
    "mistral.jsonl": Held("exchange", "su*ta", finish="stop", system="mistral-large-latest", instructions=True),  # noqa: E501
    "cohere-2.jsonl": Held("exchange", "su*ta", evidence=1, finish="COMPLETE", system="command-a-03-2025", instructions=True),  # noqa: E501
    "cohere-sessions.jsonl": Held("sessions", "suaua", evidence=1, finish="COMPLETE", instructions=True),
    # MLflow 3 traces as search_traces returns them: info with assessments, data with spans
    "mlflow-3-trace.json": Held("otel", "su*ta", evidence=1, feedback="satisfaction=0", finish="tool_calls stop", system="gpt-4.1-2025-04-14", instructions=True),  # noqa: E501
    # deepeval 3.x: models of test_run/api.py, as .latest_test_run.json holds them
    "deepeval-latest.json": Held("deepeval", "u*t*a u*ta", evidence=3),
    # ragas 0.3: MultiTurnSample as EvaluationDataset.to_jsonl writes it
    "ragas-parallel.jsonl": Held("ragas", "uatta"),
    # inspect_ai 0.3: EvalLog version 2 (tests/log of its repository), as JSON and as .eval, a zip
    "inspect-errors.json": Held("inspect", "suatta u", finish="stop", system="openai/gpt-4.1", instructions=True),  # noqa: E501
    "inspect.eval": Held("inspect", "suatta u", finish="stop", system="openai/gpt-4.1", instructions=True),
    # promptfoo: results version 3 (output.json), tool calls, errors
    "promptfoo.json": Held("promptfoo", "sua u* ua", finish="stop stop stop", system="openai:gpt-4.1", instructions=True),  # noqa: E501
    # tau2-bench: data_model/message.py; the user has tools too
    "tau2-user-tools.json": Held("tau2", "aua*tu*ttau", system="gpt-4.1", instructions=True),
    # Intercom API 2.14: source without a type, rating as a number, parts without a body
    "intercom-2.14.json": Held("intercom", "uauau", feedback="rating=5 resolved=1", note="internal notes left out; 2 entries that are no messages left out"),  # noqa: E501
    # Zendesk tickets with comments that list the newest first, users beside them
    "zendesk-users.json": Held("zendesk", "ua", feedback="thumbs=0", note="internal notes left out"),
    # Freshchat API v2, HubSpot conversations v3, LiveChat 3.5, Salesforce conversation entries
    "freshchat.json": Held("freshchat", "ua", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "hubspot.json": Held("hubspot", "aua", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "livechat.json": Held("livechat", "ua", feedback="thumbs=1", note="internal notes left out; 3 entries that are no messages left out"),  # noqa: E501
    "salesforce.json": Held("salesforce", "uaa", note="1 entries that are no messages left out"),
    # Twilio Conversations and Programmable Messaging, Microsoft Graph 1.0 chatMessage
    "twilio.json": Held("twilio", "ua"),
    "twilio-sms.json": Held("twilio", "ua"),
    "teams.json": Held("teams", "ua", feedback="thumbs=1", note="2 entries that are no messages left out"),
    # Telegram Desktop: result.json of one chat, and of an account
    "telegram.json": Held("telegram", "uau", feedback="thumbs=0", note="1 entries that are no messages left out"),  # noqa: E501
    "telegram-account.json": Held("telegram", "AS"),
    # Botpress messages API, Rasa 3.x tracker
    "botpress-page.json": Held("rows", "uaa"),
    "rasa-3.json": Held("rasa", "u*aaua"),
    # ChatGPT's and Claude's exports of 2026: images, thoughts, tools, branches
    "chatgpt-tools.json": Held("chatgpt", "u*taua", finish="stop stop interrupted", system="gpt-5", note="other branches left out"),  # noqa: E501
    "claude-branches.json": Held("claude", "uataua", evidence=1, note="other branches left out"),
    # Arena 140k, WildChat-1M; ShareGPT with calls, with tags, and as items
    "arena-140k.jsonl": Held("arena", "ua ua", feedback="preferred=0 preferred=0", system="gpt-5"),
    "wildchat-1m.jsonl": Held("lmsys", "ua", system="gpt-4-0314"),
    "sharegpt-calls.jsonl": Held("sharegpt", "su*ta", instructions=True),
    "sharegpt-tags.jsonl": Held("sharegpt", "su*ta", instructions=True),
    "sharegpt-items.jsonl": Held("messages", "ua"),
    # Written without sight of the readers, each of which misread, lost or refused it at first
    "otel-azure-events.json": Held("otel", "sua", finish="stop", system="gpt-4o", instructions=True, note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "openai-audio.jsonl": Held("messages", "sua", instructions=True),
    "openai-filtered.jsonl": Held("exchange", "ua", finish="content_filter", system="gpt-4o"),
    "openai-stream.jsonl": Held("bare", "a", finish="stop", system="gpt-4o", note=NO_INPUT),
    "messages-choices.json": Held("messages", "ua", finish="stop", system="m"),
    "ollama.jsonl": Held("exchange", "ua", finish="length", system="llama3.2"),
    "ollama-stream.jsonl": Held("bare", "a", finish="stop", system="llama3.2", note=NO_INPUT),
    "anthropic-answers.jsonl": Held("bare", "a a", finish="end_turn end_turn", system="claude-opus-4", note=f"{NO_INPUT} {NO_INPUT}"),  # noqa: E501
    "gemini-grounding.jsonl": Held("exchange", "sua ua", 1, finish="MAX_TOKENS SAFETY", system="gemini-2.5-flash", instructions=True),  # noqa: E501
    "cohere-preamble.jsonl": Held("prompts", "uaua", 1, finish="MAX_TOKENS", instructions=True),
    "litellm-failed.jsonl": Held("completions", "ua", finish="stop", system="gpt-4o"),
    "braintrust.jsonl": Held("braintrust", "sua", feedback="rating=1", finish="stop", system="gpt-4o", instructions=True),  # noqa: E501
    "opik.json": Held("opik", "uaua", feedback="thumbs=1", finish="stop", system="gpt-4o"),
    "openwebui.json": Held("openwebui", "ua", 1, "thumbs=1", system="llama3", note="other branches left out"),
    "librechat.json": Held("librechat", "u*ta", feedback="thumbs=0", finish="stop", system="gpt-4o", instructions=True),  # noqa: E501
    "adk.json": Held("messages", "u*ta"),
    "azure-agent.jsonl": Held("prompts", "su*ta", instructions=True),
    "zendesk-incremental.json": Held("zendesk", "ua"),
    "zendesk-newest-first.csv": Held("table", "uau", feedback="thumbs=1", note="internal notes left out"),
    "copilot-studio.csv": Held("botframework", "aua", feedback="rating=4"),
    "dialogflow-bigquery.jsonl": Held("dialogflow", "uauaa ua", feedback="thumbs=1"),
    "rasa-sessions.json": Held("rasa", "uaaua ua"),
    "slack-links.json": Held("slack", "ua"),
    "whatsapp-media.txt": Held("text", "uau"),
    "rows-interleaved.csv": Held("table", "uau ua"),
    "rows-semicolons.csv": Held("table", "ua"),
    "rows-people.jsonl": Held("bare", "ua ua", note=" ".join(["no message names its conversation: joined by user_id"] * 2)),  # noqa: E501
    "texts.json": Held("ultrachat", "ua uau", note=" ".join(["roles guessed: every second text is a reply"] * 2)),  # noqa: E501
    "transcript.json": Held("transcript", "aua"),
    # A second set of sixty written without sight of the readers: those that were misread, lost or refused
    "autogen-state.json": Held("messages", "u*ta"),
    "autogen-task-result.json": Held("messages", "u*ta"),
    "autogen-v02.json": Held("messages", "uaua"),
    "botframework-unsorted.transcript": Held("botframework", "uaua", feedback="thumbs=1"),
    "claude-code.jsonl": Held("claude-code", "u*taua", finish="end_turn end_turn", system="claude-opus-4-5"),
    "codex-rollout.jsonl": Held("codex", "su*ta", system="gpt-5-codex", instructions=True),
    "deepeval-goldens.json": Held("deepeval", "u*ta", evidence=2),
    "dialogflow-logging.json": Held("dialogflow", "uaua"),
    "discord-embeds.json": Held("discord", "ua", feedback="thumbs=0", note="1 entries that are no messages left out"),  # noqa: E501
    "galileo.json": Held("galileo", "su*ta", evidence=1, system="gpt-4o", instructions=True),
    "haystack-private.json": Held("bare", "uata"),
    "haystack.jsonl": Held("messages", "su*ta", instructions=True),
    "llamaindex-memory.json": Held("messages", "su*ta ua", instructions=True),
    "mistral-conversation.json": Held("messages", "u*ta"),
    "portkey.jsonl": Held("exchange", "uaua", finish="stop stop", system="gpt-4o"),
    "posthog.json": Held("posthog", "suau*ta", system="gpt-5-mini", instructions=True),
    "semantic-kernel-net.json": Held("bare", "su*ta", instructions=True),
    "semantic-kernel.json": Held("messages", "su*ta", finish="tool_calls stop", instructions=True),
    "whatsapp-ar.txt": Held("text", "سا"),
    # A third set, of a hundred: those that were misread, lost or refused
    "chatgpt-quotes.json": Held("chatgpt", "u*taua ua", system="gpt-5", note="other branches left out"),
    "connect-card.json": Held("connect", "uaa", note="1 entries that are no messages left out"),
    "crisp.json": Held("crisp", "ua", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "datadog-intake.json": Held("datadog", "su*ta", evidence=1, system="gpt-4o", instructions=True),
    "datadog-search.json": Held("datadog", "uaua", system="gpt-4o"),
    "dialogflow-greeting.json": Held("dialogflow", "aua", feedback="thumbs=0"),
    "dialogflow-unanswered.json": Held("dialogflow", "uaua u"),
    "discord-api.json": Held("bare", "ua"),
    "discord-thumbs.json": Held("discord", "uau", note="1 entries that are no messages left out"),
    "freshdesk-conversations.json": Held("rows", "ua"),
    "freshdesk-tickets.json": Held("freshdesk", "uau u", note="internal notes left out"),
    "gemini-takeout.json": Held("takeout", "uaua"),
    "gorgias.json": Held("gorgias", "ua", feedback="rating=5", note="internal notes left out"),
    "langsmith-examples.jsonl": Held("examples", "u*ta ua"),
    "lm-eval.jsonl": Held("lm-eval", "ua ua"),
    "named-bot.json": Held("messages", "uc"),
    "one-shard.arrow": Held("prompts", "ua"),
    "openai-dpo.jsonl": Held("preferences", "ua ua", feedback="preferred=1 preferred=0"),
    "openai-evals.json": Held("openai-evals", "sua sua", finish="stop stop", system="gpt-4o-mini", instructions=True),  # noqa: E501
    "openai-events.jsonl": Held("bare", "a", finish="stop", note="only the reply is in the log, not what it answers"),  # noqa: E501
    "portkey-feedback.jsonl": Held("exchange", "ua ua", feedback="feedback=5", finish="stop", system="gpt-4o"),  # noqa: E501
    "pydantic-ai-history.json": Held("bare", "su*ta", finish="tool_call stop", instructions=True),
    "pydantic-ai-lines.jsonl": Held("messages", "su*ta uua", finish="tool_call stop", instructions=True),
    "salesforce-entries.json": Held("salesforce", "ua", note="1 entries that are no messages left out"),
    "sunshine-page.json": Held("sunshine", "ua"),
    "tidio.json": Held("rows", "ua"),
    "whatsapp-it.txt": Held("text", "GNG"),
    # A fourth set, of forty-three, written after these were read, and a fifth, of twenty-five
    "azure-rows.json": Held("prompts", "ua ua", evidence=2),
    "botframework-adaptive.json": Held("botframework", "ua"),
    "call-centre.txt": Held("text", "aua"),
    "langfuse-ui-export.json": Held("langfuse", "uaua", feedback="thumbs=1 thumbs=0"),
    "langsmith-histories.json": Held("langsmith", "uaua", feedback="thumbs=0"),
    "logfire.jsonl": Held("otel", "sua", instructions=True, note="no session: the trace is a dialogue of its own"),  # noqa: E501
    "mlflow-histories.json": Held("otel", "u*ta"),
    "named-records.json": Held("messages", "ua ua", feedback="rating=5 rating=1"),
    "pairs-objects.jsonl": Held("messages", "uaua u"),
    "pairs-texts.jsonl": Held("messages", "uaua ua"),
    "prompts-semicolons.csv": Held("sessions", "ua", evidence=1, feedback="csat=4"),
    "rasa-sql-events.jsonl": Held("rasa-events", "ua"),
    "transcript-times.txt": Held("text", "ua ua"),
    "whatsapp-tr.txt": Held("text", "ua"),
    "gemini-stream.json": Held("bare", "a", finish="STOP", note="only the reply is in the log, not what it answers"),  # noqa: E501
    "otel-adk.json": Held("otel", "sua", instructions=True),
    "prompts-nested.jsonl": Held("prompts", "ua ua", evidence=1, feedback="thumbs=1"),
    # A sixth set, of sixty-four: those that were misread, lost or refused
    "bedrock-agents.jsonl": Held("bedrock-agents", "su*ta", instructions=True),
    "captions.srt": Held("text", "aua"),
    "captions.vtt": Held("text", "aua"),
    "cells-printed.csv": Held("messages", "ua ua"),
    "chainlit.json": Held("rows", "u*ta", feedback="thumbs=1"),
    "chatwoot.json": Held("chatwoot", "ua", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "copilot.json": Held("copilot", "u*a", feedback="thumbs=1"),
    "crewai.json": Held("crewai", "uaua"),
    "deepseek.json": Held("chatgpt", "ua", system="deepseek-reasoner"),
    "dify.json": Held("sessions", "uaua", evidence=1, feedback="thumbs=1"),
    "dynamodb.jsonl": Held("rows", "ua"),
    "elastic.json": Held("rows", "ua"),
    "elevenlabs.json": Held("messages", "au*ta", feedback="likes=1 dislikes=0 thumbs=1"),
    "fastchat.jsonl": Held("messages", "ua", system="vicuna-7b"),
    "flowise.json": Held("rows", "u*ta", evidence=1),
    "front.json": Held("messages", "ua"),
    "genesys.json": Held("genesys", "auaau"),
    "helm.json": Held("exchange", "ua", system="openai/gpt-4o"),
    "helpscout.json": Held("helpscout", "ua", note="internal notes left out; 1 entries that are no messages left out"),  # noqa: E501
    "insights.json": Held("messages", "uaua"),
    "jira.json": Held("jira", "uaua", note="internal notes left out"),
    "kore.json": Held("kore", "ua"),
    "liveperson.json": Held("liveperson", "ua", note="internal notes left out"),
    "lmstudio.json": Held("messages", "ua", instructions=True),
    "mails.txt": Held("text", "ua"),
    "messenger.json": Held("messages", "AS"),
    "mongo.jsonl": Held("rows", "ua"),
    "openai-evals-events.jsonl": Held("openai-evals", "sua", instructions=True),
    "openai-realtime.jsonl": Held("realtime", "su*ta", system="gpt-realtime", instructions=True),
    "openhands.json": Held("openhands", "u*ta"),
    "otel-app-insights.csv": Held("otel", "ua", finish="stop", system="gpt-4o"),
    "otel-tempo.json": Held("otel", "ua", finish="stop", system="gpt-4o"),
    "phoenix-printed.csv": Held("otel", "sua", system="gpt-4o", instructions=True),
    "prompts-german.csv": Held("prompts", "ua", feedback="rating=5"),
    "retell.json": Held("messages", "au*ta"),
    "rows-french.csv": Held("table", "ua"),
    "rows-german.csv": Held("table", "ua ua"),
    "salesforce-emails.csv": Held("table", "ua"),
    "salesforce-live-agent.csv": Held("transcript", "uaua"),
    "servicenow.csv": Held("servicenow", "uua", note="internal notes left out"),
    "sillytavern.jsonl": Held("bare", "aua"),
    "smolagents.json": Held("smolagents", "u*ta"),
    "swe-agent.json": Held("messages", "suaua", instructions=True),
    "tweets.csv": Held("oasst-messages", "uau ua"),
    "vapi.json": Held("messages", "sau*ta", instructions=True),
    "voiceflow.json": Held("voiceflow", "aua"),
    "watson.json": Held("watson", "uaua"),
    # A seventh set, of forty-six
    "atif.json": Held("atif", "u*ta"),
    "cognigy.json": Held("cognigy", "ua"),
    "cursor.md": Held("text", "uaua"),
    "deepgram.json": Held("messages", "SS"),
    "gemini-cli.json": Held("messages", "u*ta"),
    "gladly.jsonl": Held("rows", "ua"),
    "google-chat.json": Held("messages", "ua"),
    "grok.json": Held("messages", "ua"),
    "honeyhive.jsonl": Held("honeyhive", "sua", feedback="rating=5", system="gpt-4o", instructions=True),
    "huggingchat.jsonl": Held("messages", "sua", system="Qwen/Qwen3", instructions=True),
    "kustomer.json": Held("kustomer", "ua"),
    "langwatch.jsonl": Held("langwatch", "ua", system="gpt-4o"),
    "mlflow-evaluation.jsonl": Held("examples", "ua"),
    "olark.json": Held("olark", "ua"),
    "otel-strands.json": Held("otel", "u*ta", finish="tool_use end_turn", system="claude"),
    "pairs-helpsteer.jsonl": Held("arena", "ua ua", feedback="preferred=1 preferred=0"),
    "pairs-safe.jsonl": Held("arena", "ua ua", feedback="preferred=1 preferred=0"),
    "tawk.json": Held("tawk", "ua", note="1 entries that are no messages left out"),
    "template-chatml.jsonl": Held("transcript", "sua", instructions=True),
    "template-guanaco.jsonl": Held("transcript", "uaua"),
    "template-llama2.jsonl": Held("transcript", "suaua", instructions=True),
    "template-llama3.jsonl": Held("transcript", "sua", instructions=True),
    "zendesk-chat.txt": Held("text", "uBuB"),
    # An eighth set, of thirty: tables, transcripts and notes that the customer never saw
    "cells-messages.csv": Held("messages", "ua", feedback="rating=4"),
    "dashes.txt": Held("text", "uaua"),
    "headings-several.md": Held("text", "ua ua"),
    "mails-quoted.txt": Held("text", "ua"),
    "markdown-bold.md": Held("text", "uau"),
    "named-agent.txt": Held("text", "uBuB"),
    "named-cases.json": Held("messages", "ua", note="internal notes left out"),
    "notes-column.csv": Held("table", "ua", note="internal notes left out"),
    "notes-internal.json": Held("messages", "ua", note="internal notes left out"),
    "notes-public.json": Held("messages", "ua", note="internal notes left out"),
    "notes-visibility.json": Held("messages", "ua", note="internal notes left out"),
    "numbers.txt": Held("text", "uaua"),
    "openai-channels.jsonl": Held("messages", "sua", instructions=True),
    "otter.txt": Held("text", "ARA"),
    "rows-calls.csv": Held("table", "ua"),
    "rows-dialog.csv": Held("table", "AB AB"),
    "rows-french-semicolons.csv": Held("table", "ua"),
    "rows-index.csv": Held("table", "ua"),
    "sessions-newest-first.csv": Held("sessions", "uaua", feedback="helpful=0 helpful=1"),
    "teams.txt": Held("text", "ua"),
    "zoom.txt": Held("text", "AB"),
    # A ninth set, of eighteen
    "anthropic-batch-requests.jsonl": Held("anthropic", "uau", system="claude-sonnet-4-5", instructions=True),
    "copilot-studio-sessions.csv": Held("transcript", "uaua", feedback="csat=5"),
    "intercom-parts.csv": Held("table", "ua", note="internal notes left out"),
    "letta.json": Held("bare", "su*ta", instructions=True),
    "n8n.json": Held("sessions", "uaua"),
    "openai-thread-run.json": Held("messages", "ua"),
    "openinference-smolagents.json": Held("otel", "su*ta", system="gpt-4o", instructions=True),
    "q-business.json": Held("q-business", "ua"),
    "requests-short.jsonl": Held("exchange", "ua", finish="stop"),
    # A tenth set, of eighteen
    "callers.txt": Held("text", "aua"),
    "messages-tagged-results.jsonl": Held("messages", "u*ta"),
    "mlflow-traces.csv": Held("exchange", "ua"),
    "rows-direction-notes.csv": Held("table", "AB", note="internal notes left out"),
    "zoho-salesiq.json": Held("messages", "ua"),
}  # fmt: skip


def letters(dialogue: Dialogue) -> str:
    return "".join("*" if is_step(turn) else turn.speaker[0] for turn in dialogue.turns)


def shown(found: list[dict[str, float]]) -> str:
    return " ".join(f"{name}={value:g}" for one in found for name, value in one.items())


def held(path: Path) -> Held:
    taken: list[str] = []
    found = [made for _, made in numbered(path, None, None, took=taken.append)]
    turns = [turn for one in found for turn in one.turns]
    return Held(
        taken[0],
        " ".join(map(letters, found)),
        sum(len(one.evidence) for one in (*found, *turns)),
        shown([one.feedback for one in (*found, *turns)]),
        " ".join(turn.finish_reason for turn in turns if turn.finish_reason),
        next((one.system for one in found if one.system), None),
        any(one.instructions or "s" in letters(one) for one in found),
        " ".join(str(one.meta["note"]) for one in found if "note" in one.meta),
    )


def test_every_sample_is_described() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == set(HELD)
    own = {"predictions", "actdial", "dataset", "convlab", "parlai"}  # tested elsewhere
    assert {one.format for one in HELD.values()} | own == set(known_formats())


@pytest.mark.parametrize("name", HELD)
def test_a_sample_is_found_and_read(name: str) -> None:
    assert held(SAMPLES / name) == HELD[name]


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_sample_is_written_and_read_back(tmp_path: Path, name: str, ending: str) -> None:
    found = list(read(SAMPLES / name, note=lambda _: None))
    write(found, tmp_path / f"x.{ending}")
    assert list(read(tmp_path / f"x.{ending}")) == found


@pytest.mark.parametrize("name", [name for name, one in HELD.items() if "*" in one.turns])
def test_tool_calls_have_a_name_and_results_their_call(name: str) -> None:
    turns = [turn for one in read(SAMPLES / name, note=lambda _: None) for turn in one.turns]
    assert all(call.name for turn in turns for call in turn.tool_calls)
    assert [turn.meta["note"] for turn in turns if "note" in turn.meta] == []
    calls = {call.id for turn in turns for call in turn.tool_calls if call.id}
    assert all(turn.tool_call_id in calls for turn in turns if turn.speaker == "tool" and turn.tool_call_id)


def test_steps_are_not_scored_and_long_answers_are_whole() -> None:
    for name, one in HELD.items():
        for found, told in zip(read(SAMPLES / name, note=lambda _: None), one.turns.split(), strict=True):
            scored = scored_turns(found)
            assert all(told[number] not in "*st" for number in scored), name


def test_no_reply_of_a_sample_lost_its_text() -> None:
    empty = {
        (name, one.id)
        for name in HELD
        for one in read(SAMPLES / name, note=lambda _: None)
        if any(not one.turns[number].text.strip() for number in scored_turns(one))
    }
    pictures = {"rasa-3.json", "rasa-sessions.json"}  # or buttons
    blocked = {"vertex-batch.jsonl", "gemini-grounding.jsonl", "openai-filtered.jsonl"}
    assert {name for name, _ in empty} == pictures | blocked


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("otel-azure-events.json", ["Stay polite.", "Is the museum open?", "Open until six."]),
        ("connect-card.json", ["My phone is dead", "Which model?", "I am **here**."]),
        ("gemini-takeout.json", ["when do roses flower", "In June.", "how do I prune roses", "Cut above a bud."]),  # noqa: E501
        ("discord-api.json", ["what time is it", "It is 7 pm."]),
        ("sunshine-page.json", ["hello", "Hi! How can I help?"]),
        ("chatgpt-quotes.json", ["Cheapest flight?", "", "Airline X 40 euro", "Airline X, 40 euro.", "And this one?", "That is a hotel."]),  # noqa: E501
        ("pydantic-ai-lines.jsonl", ["You are a clerk.", "Order two pens", "", '{"ok": true}', "Two pens ordered."]),  # noqa: E501
        ("gemini-stream.json", ["Hello"]),
        ("otel-adk.json", ["Be nice", "Hi", "Hello!"]),
        ("langsmith-histories.json", ["first?", "one.", "second?", "two."]),
        ("botframework-adaptive.json", ["", "Refund started.\nIt takes 5 days."]),
        ("call-centre.txt", ["Thank you for calling, how can I help?", "My card is blocked.", "I see. One moment."]),  # noqa: E501
        ("pairs-objects.jsonl", ["Hi", "Hello", "Bye", "Goodbye"]),
        ("openai-audio.jsonl", ["x", "play it", "Playing the song now."]),
        ("openai-stream.jsonl", ["Hello"]),
        ("azure-agent.jsonl", ["S", "order?", "", "shipped", "It shipped."]),
        ("ollama-stream.jsonl", ["Scattering."]),
        ("openwebui.json", ["Hi", "Good"]),
        ("slack-links.json", ["How do I reset the VPN & token?", "Open the portal: portal"]),
        ("whatsapp-media.txt", ["Hi, is the cake ready?", "Yes! Note: we close at 10.\nSee you soon", "Coming"]),  # noqa: E501
        ("zendesk-newest-first.csv", ["TV does not start", "Hello, which model?", "X200"]),
        ("rows-interleaved.csv", ["I want to rebook", "Sure, which day?", "Friday"]),
        ("haystack.jsonl", ["Short answers.", "Sum 2 and 5", "", "7", "Seven."]),
        ("codex-rollout.jsonl", ["Sandbox rules", "Rename foo to bar", "", '{"output":"","metadata":{"exit_code":0}}', "Renamed in two files."]),  # noqa: E501
        ("autogen-v02.json", ["Plan a picnic for four", "Bring bread, cheese and fruit.", "Without cheese please", "Then bring olives. TERMINATE"]),  # noqa: E501
        ("discord-embeds.json", ["!price tent", "Tent\nA tent costs 80 euros."]),
        ("botframework-unsorted.transcript", ["My printer is stuck", "Is it the **blue** printer?", "Yes", "Restart it\nHold the green key."]),  # noqa: E501
        ("dialogflow-bigquery.jsonl", ["book a slot", "Which day?", "Monday", "Booked for Monday.", "Anything else?"]),  # noqa: E501
        ("tweets.csv", ["@sprintcare my phone has no signal", "@115712 I understand. Please send us a private message.", "@sprintcare I did already"]),  # noqa: E501
        ("front.json", ["Where is my order?", "We shipped it yesterday."]),
        ("servicenow.csv", ["Mail is down", "I cannot send mail.", "Please restart Outlook."]),
        ("lmstudio.json", ["Name a tree.", "A fir."]),
        ("mails-quoted.txt", ["My parcel is late.\n\nAnn", "It comes tomorrow."]),
        ("openai-realtime.jsonl", ["Be brief.", "What time is it in Rome?", "", "10:00", "It is ten."]),
        ("openai-channels.jsonl", ["Be brief.", "2+2?", "4"]),
        ("notes-column.csv", ["Hi", "Hello Ann"]),
        ("intercom-parts.csv", ["Where is it?", "On its way."]),
        ("template-llama2.jsonl", ["Be brief.", "Name a fruit.", "Apple.", "Another one?", "Pear."]),
        ("phoenix-printed.csv", ["Be brief.", "What's new?", "Not much, honestly."]),
        ("sessions-newest-first.csv", ["Any soup?", "Tomato.", "And pasta?", "Yes, too."]),
    ],
)  # fmt: skip
def test_the_first_dialogue_says_what_was_said(name: str, texts: list[str]) -> None:
    assert [turn.text for turn in next(read(SAMPLES / name, note=lambda _: None)).turns] == texts


def test_times_in_words_leave_rows_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    times = ["1/2/2026 9:59 PM", "1/2/2026 10:05 PM"]
    rows = [{"ChatID": 1, "role": "user", "content": when, "time": when} for when in times]
    path.write_text("\n".join(map(json.dumps, rows)))
    (found,) = read(path)
    assert [turn.text for turn in found.turns] == times


def test_markdown_in_an_answer_is_no_speaker() -> None:
    notes: list[str] = []
    (found,) = read(SAMPLES / "markdown.txt", note=notes.append)
    assert found.turns[1].text.splitlines()[1:] == ["Note: times are local.", "- Lyon: left this morning"]
    assert "1 lines begin like a speaker and were read as text: Note:" in notes[0]


def test_what_is_guessed_or_lost_is_said() -> None:
    locales = tuple(f"whatsapp-{one}." for one in ("de", "us", "jp", "fr", "kr", "es"))
    said: dict[str, list[str]] = {name: [] for name in HELD if not name.startswith(locales)}
    for name, notes in said.items():
        list(read(SAMPLES / name, note=notes.append))
    assert {name: [note.partition(": ")[2] for note in notes] for name, notes in said.items() if notes} == {
        "botframework.transcript.json": [
            "in record 1: 2 activities that are no messages (typing, events, updates)"
        ],
        "botframework.transcript": [
            "in record 1: 3 activities that are no messages (typing, events, updates)"
        ],
        "botframework-unsorted.transcript": [
            "in record 1: 3 activities that are no messages (typing, events, updates)"
        ],
        "cells-messages.csv": ["the messages were found under chat_log"],
        "mails-quoted.txt": ["mail text: roles guessed by name, Shop Support is the bot"],
        "markdown-bold.md": ["a blank line stands after every turn: read as one dialogue"],
        "named-cases.json": ["the messages were found under interactions"],
        "otter.txt": ["Slack text: no name says who the bot is: every turn but the first is scored"],
        "teams.txt": ["WhatsApp text: roles guessed by name, Help Bot is the bot"],
        "anthropic-batch-requests.jsonl": ["the messages were found under params.messages"],
        "deepgram.json": ["the messages were found under results.utterances"],
        "gladly.jsonl": ["in record 2: an internal note"],
        "grok.json": ["the messages were found under responses"],
        "chainlit.json": ["in record 2: no speaker or no text"],
        "elevenlabs.json": ["the messages were found under transcript"],
        "fastchat.jsonl": ["the messages were found under state.messages"],
        "insights.json": ["the messages were found under entries"],
        "mails.txt": ["mail text: roles guessed by name, Shop Support is the bot"],
        "openai-evals-events.jsonl": [
            "in record 1: a record about the file, no dialogue",
            "2 times, first in record 3: no question or no answer in it",
        ],
        "retell.json": ["the messages were found under transcript_with_tool_calls"],
        "sillytavern.jsonl": ["in record 1: a record about the file, no dialogue"],
        "swe-agent.json": ["the messages were found under history"],
        "autogen-state.json": ["the messages were found under llm_context.messages"],
        "autogen-v02.json": ["the messages were found under chat_history"],
        "claude-code.jsonl": ["3 times, first in record 1: a line that is no message"],
        "codex-rollout.jsonl": ["3 times, first in record 3: an event, no item of the conversation"],
        "deepeval-goldens.json": ["in record 2: a conversation without a message"],
        "mistral-conversation.json": ["the messages were found under entries"],
        "whatsapp-ar.txt": ["WhatsApp text: no name says who the bot is: every turn but the first is scored"],
        "copilot-studio.json": ["in record 1: 2 activities that are no messages (typing, events, updates)"],
        "openai-responses-chains.jsonl": ["in record 6: a response without an answer (failed)"],
        "openai-stored-choices.json": ["in record 2: choices after the first"],
        "openai-batch-output.jsonl": [
            "in record 2: the request failed (rate_limit)",
            "in record 3: the request failed (batch_expired)",
        ],
        "anthropic-batch-results.jsonl": [
            "in record 2: the request failed (invalid_request_error)",
            "in record 3: no question or no answer in it",
        ],
        "vertex-batch.jsonl": ["in record 2: no question or no answer in it"],
        "gemini-batch.jsonl": ["in record 2: the request failed (13)"],
        "otel-1.38.json": [
            "in record 1: choices after the first",
            "in record 1: a call that failed, without an answer",
            "in record 1: no message in trace t4",
        ],
        "otel-choices.jsonl": ["in record 2: choices after the first"],
        "langfuse-v3.json": ["in record 1: a call that failed, without an answer"],
        "langsmith-threads.jsonl": ["in record 8: a call that failed, without an answer"],
        "langgraph-threads.json": ["in record 2: a state without messages"],
        "litellm.jsonl": [
            "in record 3: the request failed (rate_limit_error)",
            "in record 4: no question or no answer in it",
        ],
        "helicone-export.jsonl": ["in record 4: the request failed (rate_limit_exceeded)"],
        "bedrock-log.jsonl": [
            "in record 3: the request failed (ThrottlingException)",
            "in record 4: no question or no answer in it",
        ],
        "gemini-takeout.json": ["in record 2: no question or no answer in it"],
        "sunshine-page.json": ["in record 3: no speaker or no text"],
        "whatsapp-it.txt": [
            "WhatsApp text: no name says who the bot is: every turn but the first is scored",
            "WhatsApp text: 2 attachments or notices left out",
        ],
        "whatsapp-tr.txt": [
            "WhatsApp text: roles guessed by name, Destek Bot is the bot",
            "WhatsApp text: 2 attachments or notices left out",
        ],
        "prompts-semicolons.csv": ["in record 4: no question or no answer in it"],
        "promptfoo.json": ["in record 3: the request failed (API error: 429)"],
        "botpress-page.json": ["in record 4: no speaker or no text"],
        "slack-export.json": ["in record 1: channel_join: no message"],
        "slack.txt": ["Slack text: roles guessed by name, parcelbot bot is the bot"],
        "whatsapp.txt": ["WhatsApp text: roles guessed by name, Parcel Support is the bot"],
        "whatsapp-android.txt": [
            "WhatsApp text: no name says who the bot is: every turn but the first is scored"
        ],
        "whatsapp-media.txt": [
            "WhatsApp text: roles guessed by name, Shop Bot is the bot",
            "WhatsApp text: 1 attachments or notices left out",
        ],
        "rows-interleaved.csv": ["rows of a dialogue do not stand together, joined by ConversationID"],
        "litellm-failed.jsonl": ["in record 2: the request failed (litellm.RateLimitError: 429)"],
        "copilot-studio.csv": ["in record 2: 4 activities that are no messages (typing, events, updates)"],
        "markdown.txt": ["1 lines begin like a speaker and were read as text: Note:"],
        "blank-lines.txt": ["a blank line stands after every turn: read as one dialogue"],
    }


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ('{"test_case": [1], "actual_outputs": "x"}', "deepeval"),
        ('{"run_type": "llm", "trace_id": "x"}', "langsmith"),
        ('{"sender_id": "x", "slots": {}}', "rasa"),
        ('{"ticket": 4, "requester_id": 3}', "zendesk"),
        ('{"simulation": [], "termination_reason": "x"}', "tau2"),
    ],
)
def test_what_fits_nothing_is_refused_and_the_nearest_format_named(
    tmp_path: Path, text: str, nearest: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"no known kind of dialogue: .* \(nearest is {nearest} "):
        list(read(path))


def test_a_hugging_face_dataset_on_disk(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ANSWER}]
    for split in ("train", "test"):
        folder = tmp_path / "set" / split
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}")
        table = pa.Table.from_pylist([{"id": f"{split}-{n}", "messages": said} for n in range(2)])
        with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as file:
            file.write_table(table)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    found = list(read(tmp_path / "set"))
    assert [one.id for one in found] == ["test-0", "test-1", "train-0", "train-1"]
    assert [one.id for one in read(tmp_path / "set" / "train")] == ["train-0", "train-1"]
    assert found[0].turns[1] == Turn("assistant", ANSWER)


def test_an_export_of_a_slack_workspace(tmp_path: Path) -> None:
    """A thread goes on over days, accounts stand beside the channels, and text is escaped."""
    people = [{"id": "U1", "profile": {"real_name": "Ann"}}, {"id": "UB", "is_bot": True, "profile": {}}]
    (tmp_path / "users.json").write_text(json.dumps(people))
    (tmp_path / "channels.json").write_text('[{"id": "C1", "name": "help", "members": []}]')
    (tmp_path / "help").mkdir()
    asked = {"ts": "1767225600.1", "thread_ts": "1767225600.1", "user": "U1", "text": "7 &amp; 8?"}
    for day, said in (("01", asked), ("02", {**asked, "ts": "1767312000.2", "user": "UB", "text": ANSWER})):
        (tmp_path / "help" / f"2026-01-{day}.json").write_text(json.dumps([said]))
    (found,) = read(tmp_path)
    assert found.id == "help-thread-1767225600.1"
    assert [(turn.speaker, turn.text) for turn in found.turns] == [("user", "7 & 8?"), ("assistant", ANSWER)]


def test_the_table_of_formats_says_what_the_samples_show() -> None:
    page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text().partition("## Formats")[2]
    lines = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    kinds = ("tools", "evidence", "feedback")
    names = [name for cells in lines for name in re.findall(r"`([\w-]+)`", cells[0])]
    assert sorted(names) == sorted(known_formats())
    told = {
        (name, kind)
        for cells in lines
        for name in re.findall(r"`([\w-]+)`", cells[0])
        for kind, cell in zip(kinds, cells[4:7], strict=True)
        if cell.strip() != "no"
    }
    shown = {
        (one.format, kind)
        for one in HELD.values()
        for kind, held in zip(kinds, (set("t*") & set(one.turns), one.evidence, one.feedback), strict=True)
        if held
    }
    assert told == shown


def test_both_shapes_that_fit_are_named(tmp_path: Path) -> None:
    record: dict[str, Any] = {"task_id": 1, "traj": [{"role": "user", "content": "Hi"}]}
    record |= {"chosen": "x", "rejected": "y", "prompt": "z"}
    path, notes = tmp_path / "x.jsonl", list[str]()
    path.write_text(json.dumps(record))
    (found,) = read(path, note=notes.append)
    assert found.meta["task_id"] == 1
    assert notes == [
        f"{path}: read as tau, because of traj, task_id; preferences would fit too (--format preferences)"
    ]


def test_objects_one_after_another_over_many_lines(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ANSWER}]
    path = tmp_path / "console.json"
    path.write_text("\n".join(json.dumps({"id": str(n), "messages": said}, indent=4) for n in range(3)))
    assert [one.id for one in read(path)] == ["0", "1", "2"]


def test_calls_and_results_in_one_message(tmp_path: Path) -> None:
    tool = {
        "type": "tool-weather",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {"city": "Bern"},
    }
    parts = [{**tool, "output": {"t": 22}}, {"type": "text", "text": "22 degrees."}]
    ui = {
        "id": "v1",
        "messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "parts": parts}],
    }
    graph = {"values": {"messages": [{"type": "human", "content": "Hi"}, {"type": "ai", "content": ANSWER}]}}
    for record, told in ((ui, "u*ta"), (graph, "ua")):
        path = tmp_path / f"{told[-1]}{len(told)}.jsonl"
        path.write_text(json.dumps(record))
        (found,) = read(path, note=lambda _: None)
        assert letters(found) == told
        assert [turn.meta for turn in found.turns] == [{}] * len(told)


def test_a_table_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    path, notes = tmp_path / "half.csv", list[str]()
    path.write_text('conversation_id,role,content\na,user,Hi\na,assistant,Hello\nb,user,"Is it\n')
    (found,) = read(path, note=notes.append, lenient=True)
    assert [turn.text for turn in found.turns] == ["Hi", "Hello"]
    assert notes == [f"{path}: in record 4: not CSV: unexpected end of data; what follows is lost"]
    with pytest.raises(DataError, match=r"half\.csv:3: not CSV"):
        list(read(path))


@pytest.mark.parametrize(
    ("name", "told"),
    [("x.xlsx", "a spreadsheet"), ("x.zip", "an archive"), ("x.yaml", "YAML"), ("x.eml", "a mailbox")],
)
def test_a_file_is_refused_by_its_ending(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match=told):
        list(read(tmp_path / name))


def test_a_table_whose_rows_have_an_id_each_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text("Id,Incoming,TextBody,ParentId\n1,true,Hi,c\n2,false,Hello,c\n")
    with pytest.raises(DataError, match="each row has an id of its own"):
        list(read(path))
    (found,) = read(path, columns="id=ParentId")
    assert [turn.speaker for turn in found.turns] == ["user", "assistant"]


def test_a_transcript_that_says_of_nobody_who_spoke_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("[1/1/2026 10:00 AM] a call was started, nobody came.\n")
    with pytest.raises(DataError, match="no line says who spoke"):
        list(read(path))
