import { createListenerClient, httpSend, httpStreams } from "../../src/client/listener-client.ts";
import type { Compute } from "../../src/compute/compute.ts";
import type { ImageBuilds } from "../../src/compute/image-builds.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { createListener, type Listener } from "../../src/listener/listener.ts";
import { replicaFleet } from "../../src/listener/replicas/replica-fleet.ts";
import { simulatedLimits } from "../../src/server/listener.ts";
import { httpIdentify } from "../../src/server/listener-transport.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/**
 * A listener in this process on simulated compute. It outlives every server it follows.
 * @param builds how it builds images, and where it pushes them; absent: it builds none
 */
export function startSimulatedListener(
  compute: Compute,
  url: string,
  key: string,
  building?: { builds: ImageBuilds; registry: string },
): Listener {
  const logger = createLogger("silent");
  const gateway = createGateway({
    ...{ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger },
    identify: httpIdentify(url),
  });
  const client = createListenerClient(httpSend(url, key), httpStreams(url, key));
  const fleet = replicaFleet({ compute, traffic: gateway, limits: simulatedLimits });
  const options = {
    ...{ client, logger, version: "storm", instanceId: "storm" },
    ...(building && {
      facts: { image_registry: building.registry },
      builds: { builds: building.builds, controlPlaneUrl: url },
    }),
  };
  const listener = createListener(options, fleet);
  listener.start();
  return listener;
}
