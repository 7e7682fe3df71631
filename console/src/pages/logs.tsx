import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { LogLevel } from "../../../src/contract/logs/log.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { RuntimeLog } from "../parts/log-view.tsx";
import { type DeploymentSearch, logSpans } from "../search.ts";

const levels: LogLevel[] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/** The log lines of the replicas, as they are written. */
export function LogsPart({ deployment }: { deployment: Deployment }) {
  const { q: query = "", ...search } = useSearch({ strict: false }) as DeploymentSearch;
  // The router passes on values of the address that its check leaves out.
  const level = levels.find((one) => one === search.level);
  const span = logSpans.find(({ seconds }) => seconds === search.span)?.seconds;
  const navigate = useNavigate();
  const [text, setText] = useState(query);
  useEffect(() => setText(query), [query]);
  const since = useMemo(
    () => (span === undefined ? undefined : new Date(Date.now() - span * 1_000).toISOString()),
    [span],
  );
  const change = (to: Partial<Record<"q" | "level" | "span", unknown>>) =>
    void navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId: deployment.tenant_id, id: deployment.id, part: "logs" },
      search: (before) => ({ ...before, ...to }) as DeploymentSearch,
    });
  const question = {
    deployment_id: deployment.id,
    type: "deploy" as const,
    ...(level !== undefined && { level }),
    ...(query !== "" && { query }),
    ...(since !== undefined && { start_time: since }),
  };
  const options = [
    ...(level !== undefined ? [`--level ${level}`] : []),
    ...(query !== "" ? [`--search ${shellWord(query)}`] : []),
    ...(since !== undefined ? [`--since ${since}`] : []),
  ];
  const command = ["npx pierhead logs", deployment.id, "-f", ...options].join(" ");
  return (
    <>
      <search>
        <form
          className="row filters"
          onSubmit={(event) => {
            event.preventDefault();
            change({ q: text.trim() || undefined });
          }}
        >
          <input
            type="search"
            aria-label="Text in the message"
            placeholder="Text in the message"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <select
            aria-label="Minimum level"
            value={level ?? ""}
            onChange={(event) => change({ level: event.target.value || undefined })}
          >
            <option value="">All levels</option>
            {levels.map((name) => (
              <option key={name} value={name}>
                {name} and above
              </option>
            ))}
          </select>
          <select
            aria-label="Since"
            value={span === undefined ? "" : String(span)}
            onChange={(event) => change({ span: Number(event.target.value) || undefined })}
          >
            <option value="">Any time</option>
            {logSpans.map(({ seconds, text: label }) => (
              <option key={seconds} value={seconds}>
                {label}
              </option>
            ))}
          </select>
          <button type="submit">Search</button>
        </form>
      </search>
      <RuntimeLog question={question}>
        <Link to="/host/logs" search={{ q: `deployment:${deployment.name}` }} className="button quiet">
          Open in the log search
        </Link>
        <CopyAs call={{ id: "getDeploymentLogs", input: question, cli: command }} />
      </RuntimeLog>
    </>
  );
}
