import { createListenerClient, httpSend, httpStreams } from "../../src/client/listener-client.ts";
import type { Compute } from "../../src/compute/compute.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { createListener, type Listener } from "../../src/listener/listener.ts";
import { replicaFleet } from "../../src/listener/replicas/replica-fleet.ts";
import { simulatedLimits } from "../../src/server/listener.ts";
import { httpIdentify } from "../../src/server/listener-transport.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/** A listener in this process on simulated compute. It outlives every server it follows. */
export function startSimulatedListener(compute: Compute, url: string, key: string): Listener {
  const logger = createLogger("silent");
  const gateway = createGateway({
    ...{ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger },
    identify: httpIdentify(url),
  });
  const client = createListenerClient(httpSend(url, key), httpStreams(url, key));
  const fleet = replicaFleet({ compute, traffic: gateway, limits: simulatedLimits });
  const listener = createListener({ client, logger, version: "storm", instanceId: "storm" }, fleet);
  listener.start();
  return listener;
}
