import { useQuery } from "@tanstack/react-query";
import type { Listener } from "../../../src/contract/listeners/listener.ts";
import type { Draft } from "../draft.ts";
import { useSession } from "../session.tsx";
import { SelectField } from "./fields.tsx";
import { Notice } from "./notices.tsx";
import { gathered } from "./resource-page.tsx";

export interface Placement {
  /** The listeners that take the source of the draft. */
  listeners: Listener[];
  /** Whether this server runs deployments itself. */
  isHere: boolean;
}

/** Returns where the draft can run, and the draft without the choice of any other listener. */
export function usePlacement(typed: Draft): { draft: Draft; placement: Placement } {
  const { client, workspaceId } = useSession();
  const info = useQuery({ queryKey: ["info"], queryFn: () => client.getInfo(), staleTime: Number.POSITIVE_INFINITY });
  const isHere = info.data?.builtin_data_plane ?? true;
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
  const placement = { listeners, isHere };
  if (found.isPending) return { draft: typed, placement };
  const chosen = listeners.find(({ id }) => id === typed.listenerId) ?? (isHere ? undefined : listeners[0]);
  const namespaces = namespacesOf(chosen);
  const namespace = namespaces.find((one) => one === typed.namespace) ?? namespaces[0] ?? "";
  return { draft: { ...typed, listenerId: chosen?.id ?? "", namespace }, placement };
}

const namespacesOf = (listener: Listener | undefined) => listener?.compute_config.k8s_namespaces ?? [];

/** The choice between this server, if it runs deployments, and the listeners. Nothing where there is no choice. */
export function PlacementFields(props: { draft: Draft; placement: Placement; change: (part: Partial<Draft>) => void }) {
  const { draft, placement, change } = props;
  const { listeners, isHere } = placement;
  if (listeners.length === 0 && isHere) return null;
  if (listeners.length === 0)
    return (
      <Notice kind="warn">
        This server runs no deployments itself, and no listener takes this source. Connect a listener first.
      </Notice>
    );
  const namespaces = namespacesOf(listeners.find(({ id }) => id === draft.listenerId));
  return (
    <div className="pair">
      <SelectField
        label="Runs on"
        value={draft.listenerId}
        onValue={(listenerId) => change({ listenerId })}
        options={[
          ...(isHere ? [{ value: "", text: "This server" }] : []),
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
