import { after } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { testProjects } from "../projects/deploy.ts";
import { projects } from "../projects/table.ts";
import { startTestServer } from "../support/server.ts";
import { nodeImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";
import { importPythonImage, pythonImage } from "./python-base-image.ts";

/** Of those that `npm run test:projects` deploys as processes: one of each way to install and to start. LangGraph has tests of its own. */
const names = new Set([
  "hono in typescript",
  "mcp over standard input",
  "npm workspace",
  "fastapi",
  "fastapi in a flat layout that setuptools refuses",
  "mcp python sdk 2",
]);

let opened: { engine: Engine; end(): Promise<void> } | undefined;
after(() => opened?.end());

if (!dockerSkipped) {
  // The lines of the log that a project expects are those of a build for a process.
  const chosen = projects.filter(({ name }) => names.has(name)).map((project) => ({ ...project, log: [] }));
  testProjects(chosen, async () => {
    opened = await engineForTests();
    await importPythonImage(opened.engine);
    return startTestServer({
      ...{
        PIERHEAD_COMPUTE: "docker",
        DOCKER_HOST: opened.engine.host,
        PIERHEAD_NODE_IMAGE: nodeImage,
        PIERHEAD_PYTHON_IMAGE: pythonImage,
      },
    });
  });
}
