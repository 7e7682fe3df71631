import type { DeploymentReport } from "../../contract/listeners/assignment.ts";

/** The state of one deployment as the listener reports it. The reporter adds `seq` when it sends it. */
export type Snapshot = Omit<DeploymentReport, "seq">;
