import type { ReconcilerDeps } from "../../src/reconciler/deps.ts";
import { Places } from "../../src/reconciler/slots.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/** What a reconciler is handed, as far as a test says; whatever else a step asks for is not there. */
export function passDeps(db: Db, given: Partial<ReconcilerDeps> = {}): ReconcilerDeps {
  const logger = createLogger("silent");
  const none = { traces: null, databases: null, tracing: null, images: null };
  const settings = { deployTimeoutMs: 60_000, allowLocalSources: false, allowPrivateNetwork: false };
  return { db, logger, outward: new Places(4), settings, ...none, ...given } as ReconcilerDeps;
}
