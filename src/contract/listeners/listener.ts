import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";

/** Where a listener runs agents. Only clusters have listeners of their own; the built-in one is not listed. */
export const ListenerComputeType = literals(["k8s"]);

/** `NEW`: never seen. `DISCONNECTED`: no sign of life within the lease; what it runs goes on running. */
export const ListenerStatus = literals(["NEW", "CONNECTED", "DISCONNECTED"]);
export type ListenerStatus = Static<typeof ListenerStatus>;

export const ListenerLogLevel = literals(["debug", "info", "warn", "error"]);
export type ListenerLogLevel = Static<typeof ListenerLogLevel>;

const drain = "It ends its session and changes nothing in its cluster until this is taken back. What runs goes on.";

const namespaces = "Namespaces it watches, of which a deployment chooses one; null: any.";

/** A data plane of a workspace (contract 2.7). */
export const Listener = Type.Object(
  {
    id: uuid(),
    version: nullable(Type.String(), "Of the listener program."),
    compute_type: ListenerComputeType,
    compute_id: Type.String({ description: "Name of the cluster; unique in the workspace.", examples: ["cluster-1"] }),
    compute_config: Type.Object({
      k8s_namespaces: nullable(Type.Array(Type.String(), { examples: [["agents"]] }), namespaces),
    }),
    status: ListenerStatus,
    last_seen_at: nullable(timestamp()),
    drain: Type.Boolean({ description: drain }),
    log_level: nullable(ListenerLogLevel, "Of its program's log while it acts; null: as it was started."),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "Listener", description: "A data plane that a workspace runs itself." },
);
export type Listener = Static<typeof Listener>;

const listenerKey = Type.String({
  description: "Key of the listener program. Shown this once, kept as a digest.",
  examples: ["ph_4f9a1c7e2b3d_example"],
});

export const NewListener = Type.Object({ ...Listener.properties, listener_key: listenerKey }, { $id: "NewListener" });
export type NewListener = Static<typeof NewListener>;

export const ListenerKey = Type.Object({ listener_key: listenerKey }, { $id: "ListenerKey" });
export type ListenerKey = Static<typeof ListenerKey>;

/** What whoever runs the cluster is given instead of the key. */
export const Enrollment = Type.Object(
  {
    enrollment_token: Type.String({
      description:
        "Is exchanged for the listener's key, once, by `POST /dp/v1/enroll`. Shown this once, kept as a digest.",
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

/** L1. */
export const ListListenersQuery = Type.Object(offsetQuery);
export type ListListenersQuery = Static<typeof ListListenersQuery>;

const ComputeConfigInput = Type.Object(
  { k8s_namespaces: given(Type.Array(Type.String(), { examples: [["agents"]] }), namespaces) },
  { $id: "ComputeConfigInput" },
);

/** L2. */
export const CreateListener = Type.Object(
  {
    compute_type: ListenerComputeType,
    compute_id: Type.String({ minLength: 1, maxLength: 256, examples: ["cluster-1"] }),
    compute_config: ComputeConfigInput,
    version: given(Type.String({ maxLength: 64 })),
  },
  { $id: "CreateListener" },
);
export type CreateListener = Static<typeof CreateListener>;

/** L4. Null and absent leave a field as it is. */
export const PatchListener = Type.Object(
  {
    version: given(Type.String({ maxLength: 64 })),
    compute_config: given(ComputeConfigInput),
    drain: given(Type.Boolean(), drain),
    log_level: given(
      literals(["own", "debug", "info", "warn", "error"]),
      "Of its program's log while it acts; `own`: as it was started.",
    ),
  },
  { $id: "PatchListener", examples: [{ compute_config: { k8s_namespaces: ["agents", "staging"] } }] },
);
export type PatchListener = Static<typeof PatchListener>;
