import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, mapOf, nullable, optional, timestamp, uuid } from "../schema.ts";

/** Where a listener runs agents. Only clusters have their own listeners. The built-in listener is not listed. */
export const ListenerComputeType = literals(["k8s"]);

/** `NEW`: never seen. `DISCONNECTED`: no heartbeat within the lease. Its agents keep running. */
export const ListenerStatus = literals(["NEW", "CONNECTED", "DISCONNECTED"]);
export type ListenerStatus = Static<typeof ListenerStatus>;

export const ListenerLogLevel = literals(["debug", "info", "warn", "error"]);
export type ListenerLogLevel = Static<typeof ListenerLogLevel>;

const drain =
  "The listener ends its session and changes nothing in its cluster until this is false. Agents keep running.";

/** `domain/listener-labels.ts` checks keys and values. */
const labels = (description: string) =>
  mapOf(Type.String(), `${description} Keys and values as Kubernetes allows them. Extension of Pierhead.`, {
    examples: [{ region: "eu", gpu: "l4" }],
  });

const namespaces = "Namespaces that the listener watches, of which a deployment chooses one. null: any.";

/** Data plane of a workspace (contract 2.7). */
export const Listener = Type.Object(
  {
    id: uuid(),
    version: nullable(Type.String(), "Version of the listener program."),
    compute_type: ListenerComputeType,
    compute_id: Type.String({ description: "Name of the cluster. Unique in the workspace.", examples: ["cluster-1"] }),
    compute_config: Type.Object({
      k8s_namespaces: nullable(Type.Array(Type.String(), { examples: [["agents"]] }), namespaces),
    }),
    status: ListenerStatus,
    last_seen_at: nullable(timestamp()),
    drain: Type.Boolean({ description: drain }),
    log_level: nullable(
      ListenerLogLevel,
      "Log level of the listener program while it has a session. null: the level it started with.",
    ),
    image_registry: nullable(
      Type.String({ examples: ["registry.example.com/agents"] }),
      "Repository to which the listener pushes the images that it builds from sources. The listener reports it when it opens a session. null: the listener takes only images.",
    ),
    labels: labels("Labels by which deployments choose a listener."),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "Listener", description: "A data plane that a workspace runs itself." },
);
export type Listener = Static<typeof Listener>;

const listenerKey = Type.String({
  description: "Key of the listener program. Shown only once, because the server stores only its digest.",
  examples: ["ph_4f9a1c7e2b3d_example"],
});

export const NewListener = Type.Object({ ...Listener.properties, listener_key: listenerKey }, { $id: "NewListener" });
export type NewListener = Static<typeof NewListener>;

export const ListenerKey = Type.Object({ listener_key: listenerKey }, { $id: "ListenerKey" });
export type ListenerKey = Static<typeof ListenerKey>;

/** Token for the operator of the cluster, which replaces handing over the key. */
export const Enrollment = Type.Object(
  {
    enrollment_token: Type.String({
      description:
        "Can be exchanged once for the listener's key, by `POST /dp/v1/enroll`. Shown only once, because the server stores only its digest.",
      examples: ["ph_4f9a1c7e2b3d_example"],
    }),
    expires_at: timestamp(),
  },
  { $id: "Enrollment" },
);
export type Enrollment = Static<typeof Enrollment>;

export const ListenerPage = resourcePage(Listener, "ListenerPage");
export type ListenerPage = Static<typeof ListenerPage>;

export const ListenerPath = Type.Object({ listener_id: uuid("Listener of your workspace.") });
export type ListenerPath = Static<typeof ListenerPath>;

/** Query of L1. */
export const ListListenersQuery = Type.Object(offsetQuery);
export type ListListenersQuery = Static<typeof ListListenersQuery>;

const ComputeConfigInput = Type.Object(
  {
    k8s_namespaces: optional(Type.Array(Type.String(), { maxItems: 1_000, examples: [["agents"]] }), namespaces),
  },
  { $id: "ComputeConfigInput" },
);

/** Body of L2. */
export const CreateListener = Type.Object(
  {
    compute_type: ListenerComputeType,
    compute_id: Type.String({ minLength: 1, maxLength: 256, examples: ["cluster-1"] }),
    compute_config: ComputeConfigInput,
    version: optional(Type.String({ maxLength: 64 })),
    labels: optional(labels("Labels by which deployments choose a listener. Default {}.")),
  },
  { $id: "CreateListener" },
);
export type CreateListener = Static<typeof CreateListener>;

/** Body of L4. A null or absent field leaves the setting unchanged. */
export const PatchListener = Type.Object(
  {
    version: optional(Type.String({ maxLength: 64 })),
    compute_config: optional(ComputeConfigInput),
    labels: optional(labels("Replaces all labels. Deployments stay where they are.")),
    drain: optional(Type.Boolean(), drain),
    log_level: optional(
      literals(["own", "debug", "info", "warn", "error"]),
      "Log level of the listener program while it has a session. `own`: the level it started with.",
    ),
  },
  { $id: "PatchListener", examples: [{ compute_config: { k8s_namespaces: ["agents", "staging"] } }] },
);
export type PatchListener = Static<typeof PatchListener>;
