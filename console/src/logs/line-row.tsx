import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";
import type { LogField } from "../../../src/domain/log-query.ts";
import { copyText } from "../parts/copy-as.tsx";
import { shortId } from "../parts/text.ts";
import { useToasts } from "../parts/toasts.tsx";
import { useSession } from "../session.tsx";
import { clockOf, fieldsOf, idIn } from "./line-fields.ts";

/** One line in the list: time, level, where it comes from, and message. It opens its details. */
export const LineRow = memo(function LineRow(props: {
  line: FoundLogEntry;
  /** The deployment, or the replica. */
  from: string;
  isOpen: boolean;
  onToggle: (id: string) => void;
}) {
  const { line, from, isOpen, onToggle } = props;
  const { text, fields } = fieldsOf(line.message);
  return (
    <button type="button" aria-expanded={isOpen} onClick={() => onToggle(line.id)}>
      <time dateTime={line.timestamp}>{clockOf(line.timestamp)}</time>
      <b>{line.level.toLowerCase()}</b>
      <span className="of clip">{from}</span>
      <span className="text">
        {text}
        {fields.map(([name, value]) => (
          <span key={name} className="kv">
            {" "}
            <i>{name}=</i>
            {value}
          </span>
        ))}
      </span>
    </button>
  );
});

interface DetailsProps {
  line: FoundLogEntry;
  /** Only one deployment is shown, which needs no name. */
  isOne: boolean;
  /** Adds a value to the query. */
  onFilter: (field: LogField, value: string, isNegated: boolean) => void;
  onAround: () => void;
}

/** Everything about one line: where it comes from, its fields, and what led to it. */
export function LineDetails({ line, isOne, onFilter, onAround }: DetailsProps) {
  const { workspaceId } = useSession();
  const { notify, notifyError } = useToasts();
  const { json } = fieldsOf(line.message);
  const [runId, threadId] = [idIn(line, "run_id"), idIn(line, "thread_id")];
  const address = { tenantId: workspaceId, id: line.deployment_id };
  const copy = (text: string, what: string) =>
    void copyText(text)
      .then(() => notify(`Copied ${what}.`))
      .catch(notifyError);
  return (
    <div className="log-detail">
      <p className="softer">{new Date(line.timestamp).toLocaleString([], { hourCycle: "h23" })}</p>
      <pre>{json === null ? line.message : JSON.stringify(json, null, 2)}</pre>
      <Field name="level" value={line.level.toLowerCase()} onFilter={onFilter} />
      {!isOne && (
        <Field name="deployment" value={line.deployment_name} onFilter={onFilter}>
          <Link to="/o/$tenantId/host/deployments/$id" params={address} className="link">
            {line.deployment_name}
          </Link>
        </Field>
      )}
      {line.revision_id !== null && (
        <Field name="revision" value={shortId(line.revision_id)} onFilter={onFilter}>
          <Link
            to="/o/$tenantId/host/deployments/$id"
            params={address}
            search={{ revision: line.revision_id, log: line.source }}
            className="link"
          >
            {line.revision_number ?? shortId(line.revision_id)}
          </Link>
        </Field>
      )}
      {line.replica !== null && <Field name="replica" value={line.replica} onFilter={onFilter} />}
      <Field name="source" value={line.source} onFilter={onFilter} />
      {runId !== undefined && (
        <Field name="run" value={runId} onFilter={onFilter}>
          {threadId === undefined ? (
            runId
          ) : (
            <Link
              to="/o/$tenantId/host/deployments/$id/$part"
              params={{ ...address, part: "threads" }}
              search={{ thread: threadId, view: "runs" }}
              className="link"
            >
              {runId}
            </Link>
          )}
        </Field>
      )}
      <div className="row">
        <button type="button" className="small" onClick={() => copy(linkOf(line), "the link")}>
          Copy link
        </button>
        <button type="button" className="small" onClick={() => copy(JSON.stringify(line, null, 2), "the line as JSON")}>
          Copy as JSON
        </button>
        <button type="button" className="small" onClick={onAround}>
          What happened around it
        </button>
      </div>
    </div>
  );
}

/** Links need the time too, because a range that looks back from now moves on. */
function linkOf({ id, timestamp }: FoundLogEntry): string {
  const url = new URL(location.href);
  const at = Date.parse(timestamp);
  for (const [name, value] of Object.entries({ since: at - aroundMs, until: at + aroundMs })) {
    if (!url.searchParams.has(name)) url.searchParams.set(name, new Date(value).toISOString());
  }
  url.searchParams.delete("span");
  url.searchParams.set("line", id);
  return url.href;
}

/** How far around a line its neighbours are shown. */
export const aroundMs = 30_000;

function Field(props: {
  name: LogField;
  value: string;
  onFilter: DetailsProps["onFilter"];
  children?: React.ReactNode;
}) {
  const { name, value, onFilter, children = value } = props;
  return (
    <div className="log-field">
      <span className="softer">{name}</span>
      <span>{children}</span>
      <button type="button" className="quiet small" onClick={() => onFilter(name, value, false)}>
        only this<span className="sr"> {name}</span>
      </button>
      <button type="button" className="quiet small" onClick={() => onFilter(name, value, true)}>
        without<span className="sr"> this {name}</span>
      </button>
    </div>
  );
}
