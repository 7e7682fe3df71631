import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import type { DeploymentType } from "../../src/contract/deployments/deployment.ts";
import { blankSourceConfig } from "../../src/domain/settings.ts";
import type { DatabaseServer } from "../../src/provision/database-server.ts";
import { readState } from "../../src/reconciler/plan/read-state.ts";
import type { DeploymentState } from "../../src/reconciler/plan/state.ts";
import { provisionDatabase } from "../../src/reconciler/steps/databases.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import { readDefaultEngine } from "../../src/store/deployments/deployment-databases.ts";
import { openSealer } from "../../src/store/secrets/seal.ts";
import { makeWorld, newDeployment } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { passDeps } from "./pass-deps.ts";

const never = new AbortController().signal;

/** A server that creates what it is asked for. */
const server: DatabaseServer = { ensure: async () => {}, remove: async () => {}, environment: () => ({}) };

eachDatabase(
  "new deployments with a PostgreSQL get its engine on every compute, unless they scale to zero",
  async (db) => {
    const world = await makeWorld(db);
    const sealer = await openSealer(db, randomBytes(32));
    const engineOf = async (postgres: DatabaseServer | null, changed: object, type: DeploymentType | null = "prod") => {
      const source_config = { ...blankSourceConfig, deployment_type: type, ...changed };
      const made = newDeployment(world, { source_config });
      await createDeployment(db, made);
      const shared = { postgres, redis: null };
      const databases = postgres === null ? null : { shared, container: null, areContainersWanted: false };
      const deps = passDeps(db, { databases, sealer });
      const { state } = (await readState(deps.store, made.id)) as { state: DeploymentState };
      await provisionDatabase(deps, state, undefined, never);
      return (await readDefaultEngine(db, made.id))?.engine ?? "file";
    };
    try {
      assert.equal(await engineOf(server, {}), "postgres");
      assert.equal(await engineOf(null, {}), "file", "it has no PostgreSQL");
      assert.equal(await engineOf(server, {}, "dev_zero"), "file", "it sleeps");
      const listener_id = randomUUID();
      assert.equal(await engineOf(null, { listener_id }, null), "postgres", "the listener creates one in the cluster");
      assert.equal(await engineOf(null, { listener_id, resource_spec: { min_scale: 0 } }, null), "file", "it sleeps");
    } finally {
      sealer.close();
    }
  },
);
