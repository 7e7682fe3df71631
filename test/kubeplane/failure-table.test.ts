import { randomUUID } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { createListenerClient, httpSend } from "../../src/client/listener-client.ts";
import { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import { openKubernetesCluster } from "../../src/compute/kubernetes/kubernetes-cluster.ts";
import type { HealthWord } from "../../src/contract/deployments/health.ts";
import { clusterFleet } from "../../src/listener/clusters/cluster-fleet.ts";
import { createListener, type Listener } from "../../src/listener/listener.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { checkFailure, type ExpectedFailure } from "../support/failure-table.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { grant, policy, startWorld } from "./harness.ts";

/** The fake kubelet does what the name of an image says. */
const failures: (ExpectedFailure & { name: string; image: string })[] = [
  {
    name: "image",
    image: "127.0.0.1:1/pull-fails:1",
    ...{ word: "failed", code: "image_missing", action: "deploy" },
    message: /The image 127\.0\.0\.1:1\/pull-fails:1 cannot be pulled/,
  },
  {
    name: "memory",
    image: "127.0.0.1:1/out-of-memory:1",
    ...{ word: "failed", code: "out_of_memory", action: "deploy" },
    message: /used more memory than its limit/,
  },
  {
    name: "disk",
    image: "127.0.0.1:1/fills-disk:1",
    ...{ word: "failed", code: "out_of_disk", action: "deploy" },
    message: /The node removed the pod .*storage usage exceeds the total limit of containers 64Mi/,
  },
  {
    name: "crash",
    image: "127.0.0.1:1/crashes:1",
    ...{ word: "failed", code: "exited", action: "read_log" },
    message: /keeps exiting with exit code 3/,
  },
  {
    name: "start",
    image: "127.0.0.1:1/start-fails:1",
    ...{ word: "failed", code: "start_refused", action: "deploy" },
    message: /cannot be started: CreateContainerConfigError/,
  },
  {
    name: "health",
    image: "127.0.0.1:1/never-ready:1",
    ...{ word: "failed", code: "never_healthy", action: "read_log" },
    message: /ready/,
  },
];

const fast = { PIERHEAD_DEPLOY_TIMEOUT_MS: "15000", PIERHEAD_RESYNC_INTERVAL_MS: "500" };

const working = "127.0.0.1:1/agent:1";

let world: Awaited<ReturnType<typeof startWorld>>;
let pierhead: TestServer;
let cluster: Awaited<ReturnType<typeof openKubernetesCluster>>;
let listener: Listener;
let listenerId: string;
let startListener: () => void;

before(async () => {
  world = await startWorld();
  pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", ...fast });
  const namespace = await world.plane.newNamespace();
  await grant(world.plane, namespace);
  const body = { compute_type: "k8s", compute_id: "cluster", compute_config: {} } as const;
  const { id, listener_key: key } = await pierhead.client.createListener({ body });
  listenerId = id;
  const logger = createLogger("silent");
  const api = new ApiServer(world.plane.address("listener"));
  cluster = await openKubernetesCluster({ api, namespaces: [namespace], discoverMs: 300, policy, logger });
  const client = createListenerClient(httpSend(pierhead.url, key));
  const options = { logger, metricsIntervalMs: 1_000, instanceId: randomUUID(), version: "0.0.0" };
  startListener = () => {
    listener = createListener({ client, ...options }, clusterFleet({ cluster, graceMs: 2_000 }));
    listener.start();
  };
  startListener();
});
after(async () => {
  await listener?.stop();
  await cluster?.close();
  await pierhead?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

const deploy = async (name: string, image: string) => {
  const { id } = await pierhead.client.createDeployment({
    body: {
      name,
      source: "external_docker",
      source_config: { listener_id: listenerId },
      source_revision_config: { image_uri: image },
      secrets: [
        { name: "POSTGRES_URI_CUSTOM", value: "postgresql://127.0.0.1:1/x" },
        { name: "REDIS_URI_CUSTOM", value: "redis://127.0.0.1:1" },
      ],
    },
  });
  return id;
};

const reaches = (id: string, word: HealthWord) =>
  eventually(
    () => pierhead.client.getDeployment({ deployment_id: id }),
    ({ health }) => health.status === word,
    { what: word, timeoutMs: 60_000 },
  );

suite("Kubernetes: failures and their ways out", { concurrency: true }, () => {
  for (const { name, image, ...expected } of failures) {
    test(`${name}: ${expected.word} because of ${expected.code}, and another image serves`, async () => {
      const id = await deploy(name, image);
      const body = { source_revision_config: { image_uri: working } };
      await checkFailure(pierhead.client, id, expected, () =>
        pierhead.client.patchDeployment({ deployment_id: id, body }),
      );
    });
  }
});

test("variable: failed because of variables_missing, and the same image serves once the variable is set", async () => {
  const { client } = pierhead;
  const id = await deploy("variable", "127.0.0.1:1/needs-model-key:1");
  const expected: ExpectedFailure = {
    ...{ word: "failed", code: "variables_missing", action: "set_variable" },
    message: /MODEL_KEY is not set\. Set it with: pierhead env set variable MODEL_KEY/,
  };
  await checkFailure(client, id, expected, () =>
    client.changeVariables({ deployment_id: id, body: { set: [{ name: "MODEL_KEY", value: "secret" }] } }),
  );
});

test("later: crash_looping because of exited after it was live, and another image serves", async () => {
  const { client } = pierhead;
  const image = "127.0.0.1:1/breaks:1";
  const id = await deploy("later", image);
  await reaches(id, "live");
  world.node.crash(image);
  const expected: ExpectedFailure = {
    ...{ word: "crash_looping", code: "exited", action: "read_log" },
    message: /ends soon after each start\. The container 'api-server' keeps exiting with exit code 3/,
  };
  const body = { source_revision_config: { image_uri: working } };
  await checkFailure(client, id, expected, () => client.patchDeployment({ deployment_id: id, body }));
});

test("silence: unknown while the listener does not report, and live once it does", async () => {
  const { client, server } = pierhead;
  const id = await deploy("silence", working);
  await reaches(id, "live");
  await listener.stop();
  // Five minutes pass.
  await server.db.query(sql`
    with resumed as (update clock set resumed_at = resumed_at - interval '6 minutes')
    update listeners set last_seen_at = now() - interval '6 minutes' where id = ${listenerId}`);
  const expected: ExpectedFailure = {
    ...{ word: "unknown", code: null, action: "check_listener" },
    message: /Its listener does not report/,
  };
  await checkFailure(client, id, expected, async () => startListener());
});

test("room: failed because of no_capacity, and the same revision serves once a node has room", async () => {
  const { client } = pierhead;
  await world.node.resize("0");
  const id = await deploy("room", working);
  const expected: ExpectedFailure = {
    ...{ word: "failed", code: "no_capacity", action: "deploy" },
    message: /No node has room for a pod: .*Insufficient cpu/,
  };
  await checkFailure(client, id, expected, async () => {
    await world.node.resize("64");
    const { latest_revision_id: revision_id } = await client.getDeployment({ deployment_id: id });
    await client.redeployRevision({ deployment_id: id, revision_id: revision_id ?? "" });
  });
});
