import { type ActionRequest, questionOf } from "../../agent/types.ts";
import { jsonOf } from "./json-text.tsx";

/** The tool calls of a question by name, and all but the first with their arguments: an answer decides about each of them. */
export function InterruptCalls({ value, requests }: { value: unknown; requests: readonly ActionRequest[] }) {
  const [first, ...others] = requests;
  if (first === undefined) return null;
  if (others.length === 0 && questionOf(value) === `Allow ${first.name}?`) return null;
  return (
    <ol className="calls plain" aria-label="Tool calls">
      {requests.map(({ name, args }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: calls of one question have no other identity.
        <li key={at}>
          {requests.length > 1 && <span className="softer">{`${at + 1} of ${requests.length}: `}</span>}
          <b className="mono">{name}</b>
          {at > 0 && <pre className="json">{jsonOf(args)}</pre>}
        </li>
      ))}
    </ol>
  );
}
