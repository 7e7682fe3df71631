import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { readMessages } from "../../../src/client/event-stream.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { SelectField, Tabs, TextField } from "../parts/fields.tsx";
import { Loading, Notice } from "../parts/notices.tsx";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";

/** Calls the agent through the gateway as its clients do, without the console's cookie. */
export function TryPart({ deployment }: { deployment: Deployment }) {
  const [key, setKey] = useState("");
  const [kind, setKind] = useState<"chat" | "raw" | null>(null);
  const { client } = useSession();
  const info = useQuery({ queryKey: ["info"], queryFn: () => client.getInfo(), staleTime: Number.POSITIVE_INFINITY });
  const base = addressOf(deployment, info.data?.agents_domain ?? null);
  const graphs = useQuery({
    queryKey: ["graphs", deployment.id, deployment.active_revision_id, key],
    queryFn: ({ signal }) => assistantsOf(base ?? "", key, signal),
    enabled: base !== null && deployment.active_revision_id !== null,
    // Keeps the form and its conversation while the key is typed or another revision takes over.
    placeholderData: keepPreviousData,
  });
  if (deployment.active_revision_id === null)
    return <Notice>No revision is serving yet, so there is no agent to call.</Notice>;
  if (base === null)
    return (
      <Notice kind="warn">
        This page can call only its own server, and this deployment has another address. Call it from a terminal:{" "}
        <code>curl {deployment.url}/ok</code>
      </Notice>
    );
  if (graphs.isPending) return <Loading what="the graphs" />;
  const assistants = graphs.data ?? [];
  const shown = kind ?? (assistants.length > 0 ? "chat" : "raw");
  return (
    <>
      <Tabs
        label="Call type"
        value={shown}
        onValue={setKind}
        options={[
          { value: "chat", text: "Chat" },
          { value: "raw", text: "Request" },
        ]}
      />
      <TextField
        label="API key"
        type="password"
        value={key}
        onValue={setKey}
        hint="Needed only if the server requires a key for calls to agents."
      />
      {shown === "chat" && assistants.length === 0 && (
        <Notice>This agent is not a LangGraph server. Use Request instead.</Notice>
      )}
      {shown === "chat" && assistants.length > 0 && <Chat base={base} apiKey={key} assistants={assistants} />}
      {shown === "raw" && <RawRequest base={base} apiKey={key} />}
    </>
  );
}

/**
 * Returns the address to call. The page's policy allows only its own server, which serves deployments routed by path, also
 * those whose address lies in a domain for agents.
 */
function addressOf({ url }: Deployment, agentsDomain: string | null): string | null {
  if (url === null || !URL.canParse(url)) return null;
  const address = new URL(url);
  if (agentsDomain !== null && address.hostname.endsWith(`.${agentsDomain}`)) {
    return `${location.origin}/d/${address.hostname.slice(0, -agentsDomain.length - 1)}`;
  }
  if (address.origin === location.origin) return url.replace(/\/+$/, "");
  return address.pathname.startsWith("/d/") ? location.origin + address.pathname.replace(/\/+$/, "") : null;
}

function call(url: string, key: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key !== "") headers.set("x-api-key", key);
  if (init.body) headers.set("content-type", "application/json");
  return fetch(url, { ...init, headers, credentials: "omit" });
}

interface Assistant {
  assistant_id: string;
  graph_id: string;
}

/** Returns the assistants, or [] for a server that is not a LangGraph server. */
async function assistantsOf(base: string, key: string, signal: AbortSignal): Promise<Assistant[]> {
  const answer = await call(`${base}/assistants/search`, key, { method: "POST", body: '{"limit":20}', signal });
  if (!answer.ok) return [];
  const found: unknown = await answer.json().catch(() => []);
  return Array.isArray(found) ? (found as Assistant[]) : [];
}

interface ChatMessage {
  role: string;
  text: string;
}

function Chat({ base, apiKey, assistants }: { base: string; apiKey: string; assistants: Assistant[] }) {
  const [assistant, setAssistant] = useState(assistants[0]?.assistant_id ?? "");
  const [thread, setThread] = useState<string | null>(null);
  const [messages, setMessages] = useState<ChatMessage[]>([]);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const send = async () => {
    setBusy(true);
    setProblem(null);
    let hasAnswered = false;
    const show = (received: ChatMessage[]) => {
      hasAnswered = true;
      setMessages(received);
    };
    try {
      const id = thread ?? (await newThread(base, apiKey));
      setThread(id);
      setText("");
      await streamRun({ base, apiKey, assistant, thread: id, text }, show);
    } catch (error) {
      setProblem(textOf(error));
      // A message that the agent did not accept can be sent again.
      if (!hasAnswered) setText((since) => (since === "" ? text : since));
    } finally {
      setBusy(false);
    }
  };
  const startThread = () => {
    setThread(null);
    setMessages([]);
  };
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {assistants.length > 1 && (
        <SelectField
          label="Graph"
          value={assistant}
          onValue={setAssistant}
          options={assistants.map(({ assistant_id, graph_id }) => ({ value: assistant_id, text: graph_id }))}
        />
      )}
      <div role="log" aria-label="Conversation" aria-busy={isBusy}>
        {messages.map((message, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a conversation only grows.
          <p key={index}>
            <b>{message.role}</b> {message.text}
          </p>
        ))}
      </div>
      {problem !== null && (
        <p role="alert" className="bad-text">
          {problem}
        </p>
      )}
      <TextField label="Message" value={text} onValue={setText} />
      <div className="row">
        <button type="submit" className="primary" disabled={isBusy || text === ""}>
          Send
        </button>
        <button type="button" onClick={startThread} disabled={thread === null || isBusy}>
          New thread
        </button>
        {thread !== null && <span className="soft">thread {thread}</span>}
      </div>
    </form>
  );
}

async function newThread(base: string, key: string): Promise<string> {
  const answer = await call(`${base}/threads`, key, { method: "POST", body: "{}" });
  if (!answer.ok) throw new Error(`The agent answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
  return ((await answer.json()) as { thread_id: string }).thread_id;
}

interface Run {
  base: string;
  apiKey: string;
  assistant: string;
  thread: string;
  text: string;
}

/** Streams a run and shows the messages of the thread's state whenever the agent sends them. */
async function streamRun(run: Run, show: (messages: ChatMessage[]) => void): Promise<void> {
  const input = { messages: [{ role: "user", content: run.text }] };
  const body = JSON.stringify({ assistant_id: run.assistant, input, stream_mode: ["values"] });
  // The agent chose the id: unencoded, `../..` would lead out of the agent.
  const url = `${run.base}/threads/${encodeURIComponent(run.thread)}/runs/stream`;
  const answer = await call(url, run.apiKey, { method: "POST", body });
  if (!answer.ok || answer.body === null)
    throw new Error(`The agent answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
  for await (const { type, data } of readMessages(answer.body, "")) {
    if (data === "") continue;
    const value = JSON.parse(data) as {
      messages?: { type?: string; role?: string; content: unknown }[];
      message?: string;
    };
    if (type === "error") throw new Error(value.message ?? data);
    if (!Array.isArray(value.messages)) continue;
    show(
      value.messages.map(({ type: kind, role, content }) => ({
        role: kind ?? role ?? "",
        text: typeof content === "string" ? content : JSON.stringify(content),
      })),
    );
  }
}

function RawRequest({ base, apiKey }: { base: string; apiKey: string }) {
  const [verb, setVerb] = useState<"GET" | "POST" | "PUT" | "DELETE">("GET");
  const [path, setPath] = useState("/");
  const [body, setBody] = useState("");
  const [answer, setAnswer] = useState<{ head: string; text: string } | null>(null);
  const send = async () => {
    const startedAt = performance.now();
    try {
      const response = await call(base + (path.startsWith("/") ? path : `/${path}`), apiKey, {
        method: verb,
        ...(verb !== "GET" && body !== "" && { body }),
      });
      const head = () =>
        `${response.status} ${response.statusText} · ${Math.round(performance.now() - startedAt)} ms · revision ${response.headers.get("x-pierhead-revision") ?? "–"}`;
      let text = "";
      setAnswer({ head: head(), text });
      for await (const chunk of (response.body ?? new Blob([]).stream()).pipeThrough(new TextDecoderStream())) {
        text = (text + chunk).slice(0, 200_000);
        setAnswer({ head: head(), text });
      }
    } catch (error) {
      setAnswer({ head: "No response", text: textOf(error) });
    }
  };
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <div className="row">
        <SelectField
          label="Method"
          value={verb}
          onValue={setVerb}
          options={(["GET", "POST", "PUT", "DELETE"] as const).map((value) => ({ value, text: value }))}
        />
        <TextField label="Path" value={path} onValue={setPath} />
      </div>
      {verb !== "GET" && (
        <label className="field">
          <span>Body (JSON)</span>
          <textarea value={body} onChange={(event) => setBody(event.target.value)} />
        </label>
      )}
      <button type="submit" className="primary">
        Send
      </button>
      {answer !== null && (
        <section aria-label="Response" aria-live="polite">
          <p>{answer.head}</p>
          <pre>{answer.text}</pre>
        </section>
      )}
    </form>
  );
}
