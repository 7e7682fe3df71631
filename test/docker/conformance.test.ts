import { describe } from "node:test";
import { openDockerCompute } from "../../src/compute/docker/docker-compute.ts";
import { anySpec, computeConformance } from "../compute/conformance.ts";
import { agentArtifact, assertNothingLeft, worldOptions } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

describe("docker", { skip: dockerSkipped }, () => {
  computeConformance("docker", async () => {
    const { engine, end } = await engineForTests();
    const artifacts = {
      healthy: await agentArtifact(engine, "healthy"),
      broken: await agentArtifact(engine, "broken"),
      hanging: await agentArtifact(engine, "hanging"),
    };
    const options = await worldOptions(engine);
    return {
      open: () => openDockerCompute(options),
      spec: (kind) => anySpec(artifacts[kind]),
      answers: true,
      async end() {
        await assertNothingLeft(engine, options);
        await end();
      },
    };
  });
});
