import { useQuery } from "@tanstack/react-query";
import type { Listener } from "../../../src/contract/listeners/listener.ts";
import type { Draft } from "../draft.ts";
import { useSession } from "../session.tsx";
import { SelectField } from "./fields.tsx";
import { gathered } from "./resource-page.tsx";

/** Returns the listeners that take the source of the draft, and the draft without the choice of any other listener. */
export function usePlacement(typed: Draft): { draft: Draft; listeners: Listener[] } {
  const { client, workspaceId } = useSession();
  const found = useQuery({
    queryKey: ["listeners", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listListeners", {}, { signal })),
    // The server refuses the call for plans without listeners.
    retry: false,
    throwOnError: false,
  });
  const listeners = (found.data ?? []).filter(
    ({ image_registry: registry }) => typed.source === "external_docker" || registry !== null,
  );
  const chosen = listeners.find(({ id }) => id === typed.listenerId);
  if (found.isPending) return { draft: typed, listeners };
  const namespaces = namespacesOf(chosen);
  const namespace = namespaces.find((one) => one === typed.namespace) ?? namespaces[0] ?? "";
  return { draft: { ...typed, listenerId: chosen?.id ?? "", namespace }, listeners };
}

const namespacesOf = (listener: Listener | undefined) => listener?.compute_config.k8s_namespaces ?? [];

/** The choice between this server and the listeners of the workspace. Without listeners nothing is shown. */
export function PlacementFields(props: {
  draft: Draft;
  listeners: Listener[];
  change: (part: Partial<Draft>) => void;
}) {
  const { draft, listeners, change } = props;
  if (listeners.length === 0) return null;
  const namespaces = namespacesOf(listeners.find(({ id }) => id === draft.listenerId));
  return (
    <div className="pair">
      <SelectField
        label="Runs on"
        value={draft.listenerId}
        onValue={(listenerId) => change({ listenerId })}
        options={[
          { value: "", text: "This server" },
          ...listeners.map(({ id, compute_id: name, status }) => ({
            value: id,
            text: status === "CONNECTED" ? name : `${name} (not connected)`,
          })),
        ]}
        hint={
          draft.listenerId === "" || draft.source === "external_docker"
            ? undefined
            : "The image is built in the cluster of this listener."
        }
      />
      {namespaces.length > 1 && (
        <SelectField
          label="Namespace"
          value={draft.namespace}
          onValue={(namespace) => change({ namespace })}
          options={namespaces.map((value) => ({ value, text: value }))}
        />
      )}
    </div>
  );
}
