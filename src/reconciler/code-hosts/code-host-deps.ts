import type { Db } from "../../store/engine/database.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import type { StepDeps } from "../deps.ts";

/**
 * What the steps for code hosts work with. They use functions of `src/store` on `db` directly, because they create
 * revisions and deployments in transactions of several statements, as the API does.
 */
export interface CodeHostDeps
  extends Pick<StepDeps, "store" | "logger" | "traces" | "outward" | "settings" | "github" | "tracing"> {
  db: Db;
  sealer: Sealer;
}
