import { tmpdir } from "node:os";
import path from "node:path";
import { childEnvironment } from "../../base/child-environment.ts";
import { BuildLog } from "../worker/build-log.ts";
import { downloadRetries, packageManagerSettings } from "../worker/environment.ts";
import type { BuildContext } from "../worker/run-command.ts";

/** Returns the context of a build step that runs while an image is built, in the root of the source. */
export function stepContext(sourceDir: string): BuildContext {
  const caches = path.join(tmpdir(), "pierhead");
  return {
    sourceDir,
    cacheDir: caches,
    // The image has no secrets, and its own variables belong to the build.
    env: {
      ...downloadRetries,
      ...childEnvironment(() => true),
      ...packageManagerSettings,
      YARN_CACHE_FOLDER: path.join(caches, "yarn"),
    },
    log: new BuildLog(({ message }) => console.log(message)),
    signal: new AbortController().signal,
  };
}
