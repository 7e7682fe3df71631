import { useQuery } from "@tanstack/react-query";
import { useSession } from "../session.tsx";
import { LabelTags } from "./labels.tsx";
import { shortId } from "./text.ts";

/** Where a deployment runs: this server, or a listener with its labels. */
export function RunsOn({ listenerId }: { listenerId: string | null | undefined }) {
  const { client } = useSession();
  const found = useQuery({
    queryKey: ["listener", listenerId],
    queryFn: ({ signal }) => client.getListener({ listener_id: listenerId ?? "" }, { signal }),
    enabled: listenerId != null,
    // A role or a plan may not read listeners.
    retry: false,
    throwOnError: false,
  });
  if (listenerId == null) return "This server";
  if (found.data === undefined) return <span className="mono">{shortId(listenerId)}</span>;
  const { compute_id: name, status, labels } = found.data;
  return (
    <span className="row" title={listenerId}>
      <span>{name}</span>
      {status !== "CONNECTED" && (
        <span className="warn-text">{status === "NEW" ? "never connected" : "not connected"}</span>
      )}
      <LabelTags labels={labels} />
    </span>
  );
}
