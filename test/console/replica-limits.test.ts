import assert from "node:assert/strict";
import { test } from "node:test";
import { limitsOf } from "../../console/src/replica-limits.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { Replica } from "../../src/contract/deployments/replica.ts";

const ofType = (type: string, deployment_tier: string | null = null) =>
  ({
    ...{ source: "github", source_config: { deployment_type: type, resource_spec: null } },
    ...{ deployment_tier, compute_tier: null, database_tier: null },
  }) as unknown as Deployment;
const reporting = (memory: string, cpu: string) => [{ phase: "ready", limits: { memory, cpu } } as unknown as Replica];

test("the limits of replicas are those of the deployment's size where the host enforces them", () => {
  const enforced = reporting("enforced", "enforced");
  assert.deepEqual(limitsOf(ofType("dev"), enforced), { cpuCores: 1, memoryMib: 1_024 });
  assert.deepEqual(limitsOf(ofType("prod", "DEDICATED_M"), enforced), { cpuCores: 5, memoryMib: 12_288 });
  const swapping = reporting(
    "enforced, but swap is not limited: the kernel does not account for it",
    "enforced at 2 cores, which is all this machine has",
  );
  assert.deepEqual(limitsOf(ofType("dev"), swapping), { cpuCores: 2, memoryMib: 1_024 });
});

test("a host that enforces nothing gives no limits, and a cluster reports its own", () => {
  const none = { cpuCores: null, memoryMib: null };
  assert.deepEqual(limitsOf(ofType("dev"), []), none);
  assert.deepEqual(limitsOf(ofType("dev"), reporting("not enforced: no cgroup", "none")), none);
  assert.deepEqual(
    limitsOf(ofType("dev"), reporting("enforced for the JavaScript heap only; the rest is not", "none")),
    none,
  );
  assert.deepEqual(limitsOf(ofType("dev"), reporting("2Gi", "1500m")), { cpuCores: 1.5, memoryMib: 2_048 });
});
