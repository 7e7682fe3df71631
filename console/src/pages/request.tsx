import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Notice } from "../parts/notices.tsx";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";

/** A plain HTTP request to an agent, sent as its clients send it: with a key of theirs, without the console's cookie. */
export function RequestForm({ deployment }: { deployment: Deployment }) {
  const [key, setKey] = useState("");
  const { client } = useSession();
  const info = useQuery({ queryKey: ["info"], queryFn: () => client.getInfo(), staleTime: Number.POSITIVE_INFINITY });
  const base = addressOf(deployment, info.data?.agents_domain ?? null);
  if (base === null)
    return (
      <Notice kind="warn">
        This page can call only its own server, and this deployment has another address. Call it from a terminal:{" "}
        <code>curl {deployment.url}/ok</code>
      </Notice>
    );
  return (
    <RawRequest base={base} apiKey={key}>
      <TextField
        label="API key"
        type="password"
        value={key}
        onValue={setKey}
        hint="Needed only if the server requires a key for calls to agents."
      />
    </RawRequest>
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

function RawRequest({ base, apiKey, children }: { base: string; apiKey: string; children: ReactNode }) {
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
      <div className="request-line">
        <SelectField
          label="Method"
          value={verb}
          onValue={setVerb}
          options={(["GET", "POST", "PUT", "DELETE"] as const).map((value) => ({ value, text: value }))}
        />
        <TextField label="Path" value={path} onValue={setPath} />
        <button type="submit" className="primary">
          Send
        </button>
      </div>
      {verb !== "GET" && (
        <label className="field">
          <span>Body (JSON)</span>
          <textarea value={body} onChange={(event) => setBody(event.target.value)} />
        </label>
      )}
      {children}
      {answer !== null && (
        <section className="response" aria-label="Response" aria-live="polite">
          <p className="softer">{answer.head}</p>
          <pre className="log">{answer.text}</pre>
        </section>
      )}
    </form>
  );
}
