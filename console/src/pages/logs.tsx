import { useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { LogLevel } from "../../../src/contract/logs/log.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { RuntimeLog } from "../parts/log-view.tsx";

const levels: LogLevel[] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
const spans = { "": "Any time", "900": "Last 15 min", "3600": "Last hour", "86400": "Last day" } as const;

/** The log lines of the replicas, as they are written. */
export function LogsPart({ deployment }: { deployment: Deployment }) {
  const [level, setLevel] = useState("");
  const [text, setText] = useState("");
  const [query, setQuery] = useState("");
  const [since, setSince] = useState<string | undefined>(undefined);
  const question = {
    deployment_id: deployment.id,
    type: "deploy" as const,
    ...(level !== "" && { level: level as LogLevel }),
    ...(query !== "" && { query }),
    ...(since !== undefined && { start_time: since }),
  };
  const options = [
    ...(level !== "" ? [`--level ${level}`] : []),
    ...(query !== "" ? [`--search ${shellWord(query)}`] : []),
    ...(since !== undefined ? [`--since ${since}`] : []),
  ];
  const command = ["npx pierhead logs", deployment.id, "-f", ...options].join(" ");
  const chooseSpan = (seconds: string) =>
    setSince(seconds === "" ? undefined : new Date(Date.now() - Number(seconds) * 1_000).toISOString());
  return (
    <>
      <search>
        <form
          className="row filters"
          onSubmit={(event) => {
            event.preventDefault();
            setQuery(text.trim());
          }}
        >
          <input
            type="search"
            aria-label="Text in the message"
            placeholder="Text in the message"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <select aria-label="Minimum level" value={level} onChange={(event) => setLevel(event.target.value)}>
            <option value="">All levels</option>
            {levels.map((name) => (
              <option key={name} value={name}>
                {name} and above
              </option>
            ))}
          </select>
          <select aria-label="Since" onChange={(event) => chooseSpan(event.target.value)}>
            {Object.entries(spans).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
          <button type="submit">Search</button>
          <CopyAs call={{ id: "getDeploymentLogs", input: question, cli: command }} />
        </form>
      </search>
      <RuntimeLog question={question} />
    </>
  );
}
