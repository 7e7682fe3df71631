import { useQuery } from "@tanstack/react-query";
import type { Listener } from "../../../src/contract/listeners/listener.ts";
import { hasLabels, type Labels, labelsText, takesNamespace } from "../../../src/domain/listener-labels.ts";
import type { Draft } from "../draft.ts";
import { gathered } from "../gathered.ts";
import { useSession } from "../session.tsx";
import { SelectField } from "./fields.tsx";
import { Notice } from "./notices.tsx";

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
  return { draft: placed(typed, placement), placement };
}

/** Returns the draft with a place that exists: the chosen labels or listener, else this server, else the first listener. */
function placed(typed: Draft, { listeners, isHere }: Placement): Draft {
  const labels = typed.labels !== null && listeners.some(isLabeled) ? typed.labels : null;
  const chosen =
    labels === null
      ? (listeners.find(({ id }) => id === typed.listenerId) ?? (isHere ? undefined : listeners[0]))
      : undefined;
  const listenerId = chosen?.id ?? "";
  const namespaces = namespacesOf({ labels, listenerId }, listeners);
  const namespace = namespaces.find((one) => one === typed.namespace) ?? namespaces[0] ?? "";
  return { ...typed, labels, listenerId, namespace };
}

const isLabeled = ({ labels }: Listener) => Object.keys(labels).length > 0;

const fitting = (listeners: readonly Listener[], labels: Labels) =>
  listeners.filter((listener) => hasLabels(listener.labels, labels));

const offeredBy = ({ compute_config }: Listener) => compute_config.k8s_namespaces ?? null;

/**
 * Returns the namespaces to choose from; "" leaves it to the listener. Labels leave it first, because a named namespace excludes
 * the listeners that do not have it.
 */
function namespacesOf({ labels, listenerId }: Pick<Draft, "labels" | "listenerId">, listeners: readonly Listener[]) {
  const all = labels === null ? listeners.filter(({ id }) => id === listenerId) : fitting(listeners, labels);
  const named = [...new Set(all.flatMap((one) => offeredBy(one) ?? []))];
  if (labels === null || !all.some((one) => takesNamespace(offeredBy(one), null))) return named;
  return named.length > 1 ? ["", ...named] : [""];
}

/** The value of the choice by labels. Ids of listeners are UUIDs. */
const byLabels = "labels";

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
  const { labels, listenerId } = draft;
  const namespaces = namespacesOf(draft, listeners);
  return (
    <>
      <div className="pair">
        <SelectField
          label="Runs on"
          value={labels === null ? listenerId : byLabels}
          onValue={(value) =>
            change(value === byLabels ? { labels: {}, listenerId: "" } : { labels: null, listenerId: value })
          }
          options={[
            ...(isHere ? [{ value: "", text: "This server" }] : []),
            ...listeners.map((listener) => ({ value: listener.id, text: optionText(listener) })),
            ...(listeners.some(isLabeled) ? [{ value: byLabels, text: "A listener with labels …" }] : []),
          ]}
          hint={
            (labels === null && listenerId === "") || draft.source === "external_docker"
              ? undefined
              : "The image is built in the cluster of this listener."
          }
        />
        {namespaces.length > 1 && (
          <SelectField
            label="Namespace"
            value={draft.namespace}
            onValue={(namespace) => change({ namespace })}
            options={namespaces.map((value) => ({ value, text: value || "The listener's own" }))}
          />
        )}
      </div>
      {labels !== null && (
        <LabelChoice
          listeners={listeners}
          labels={labels}
          namespace={draft.namespace}
          onLabels={(next) => change({ labels: next })}
        />
      )}
    </>
  );
}

function optionText({ compute_id: name, labels, status }: Listener): string {
  const notes = [labelsText(labels), status === "CONNECTED" ? "" : "not connected"].filter((note) => note !== "");
  return notes.length === 0 ? name : `${name} (${notes.join("; ")})`;
}

/** One field for each label that listeners have, and which of them fit. */
function LabelChoice(props: {
  listeners: readonly Listener[];
  labels: Labels;
  namespace: string;
  onLabels: (labels: Record<string, string>) => void;
}) {
  const { listeners, labels, namespace, onLabels } = props;
  const keys = [...new Set(listeners.flatMap((listener) => Object.keys(listener.labels)))].toSorted();
  const valuesOf = (key: string) =>
    [...new Set(listeners.flatMap((listener) => listener.labels[key] ?? []))].toSorted();
  const names = fitting(listeners, labels)
    .filter((one) => takesNamespace(offeredBy(one), namespace || null))
    .map(({ compute_id: name }) => name);
  return (
    <>
      <div className="pair">
        {keys.map((key) => (
          <SelectField
            key={key}
            label={`Label ${key}`}
            value={key in labels ? `=${labels[key]}` : ""}
            onValue={(value) => {
              const { [key]: _before, ...others } = labels;
              onLabels(value === "" ? others : { ...others, [key]: value.slice(1) });
            }}
            options={[{ value: "", text: "Any" }, ...valuesOf(key).map((text) => ({ value: `=${text}`, text }))]}
          />
        ))}
      </div>
      <p role="status" className={names.length === 0 ? "bad-text" : "softer"}>
        {fitText(names)}
      </p>
    </>
  );
}

const namedMax = 5;

function fitText(names: readonly string[]): string {
  if (names.length === 0) return "No listener has these labels.";
  if (names.length === 1) return `It will run on ${names[0]}, and stay there.`;
  const named = names.slice(0, namedMax).join(", ");
  const more = names.length > namedMax ? ` and ${names.length - namedMax} more` : "";
  return `${names.length} listeners fit: ${named}${more}. The server chooses a connected one with the fewest deployments, and the deployment stays there.`;
}
