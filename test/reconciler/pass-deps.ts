import type { ReconcilerDeps } from "../../src/reconciler/deps.ts";
import { createReconcilerStore } from "../../src/reconciler/postgres-store.ts";
import { Slots } from "../../src/reconciler/slots.ts";
import type { Db } from "../../src/store/engine/database.ts";
import type { Sealer } from "../../src/store/secrets/seal.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/**
 * Returns dependencies for a pass with what the test gives. Parts that the test does not give are missing, so a step that
 * needs one of them throws.
 */
export function passDeps(db: Db, { sealer, ...given }: Partial<ReconcilerDeps> & { sealer?: Sealer } = {}) {
  const settings = { deployTimeoutMs: 60_000, allowLocalSources: false, allowPrivateNetwork: false };
  const deps: Partial<ReconcilerDeps> = {
    db,
    store: createReconcilerStore(db, sealer as Sealer),
    logger: createLogger("silent"),
    outward: new Slots(4),
    settings: settings as ReconcilerDeps["settings"],
    traces: null,
    databases: null,
    tracing: null,
    images: null,
    ...given,
  };
  return deps as ReconcilerDeps;
}
