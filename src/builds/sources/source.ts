import { cp, mkdir } from "node:fs/promises";
import path from "node:path";
import { fetchCommit, type LeftOut } from "../../integrations/git.ts";
import { shownUrl } from "../../integrations/git-failure.ts";
import type { BuildRequest } from "../build.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { archiveEntriesMax, unpackArchive } from "./archive.ts";
import { templateIgnored } from "./templates.ts";

/**
 * Puts the source of a build into its directory, which is empty.
 * @returns what was fetched, in words for the log.
 * @throws BuildFailure `ArchiveRefused`, `FetchFailed`; GitFailure
 */
export async function fetchSource(
  request: BuildRequest,
  { sourceDir: directory, signal, log }: Pick<BuildContext, "sourceDir" | "signal" | "log">,
): Promise<string> {
  const { source, timeoutMs, diskBytesMax } = request;
  await mkdir(directory, { recursive: true });
  switch (source.kind) {
    case "git": {
      const { repoUrl, commitSha, credential, allowLocal, allowPrivateNetwork } = source;
      const leftOut = await fetchCommit({
        repoUrl,
        commitSha,
        credential,
        allowLocal,
        allowPrivateNetwork,
        directory,
        signal,
        timeoutMs,
      });
      for (const line of describeLeftOut(leftOut)) log.say(line);
      return `commit ${commitSha.slice(0, 12)}`;
    }
    case "tarball": {
      const limits = { bytesMax: diskBytesMax, entriesMax: archiveEntriesMax };
      const { entries, bytes } = await unpackArchive(source.path, directory, { sha256: source.sha256, limits, signal });
      return `${entries} entries, ${bytes} bytes`;
    }
    case "template":
      // Files of the operator's, wherever they lie: a link would lead out of the source, or nowhere in an image.
      await cp(source.directory, directory, {
        recursive: true,
        dereference: true,
        filter: (file) => !templateIgnored.has(path.basename(file)),
      });
      return path.basename(source.directory);
  }
}

/** What a project may miss later, where it is not there: the credential is good for this repository alone. */
function describeLeftOut({ submodules, lfsFiles }: LeftOut): string[] {
  const shown = (paths: string[]) => `${paths.slice(0, 5).join(", ")}${paths.length > 5 ? ", ..." : ""}`;
  return [
    ...(submodules.length > 0 ? [`Submodules are not fetched, their directories are empty: ${shown(submodules)}`] : []),
    ...(lfsFiles.length > 0 ? [`Contents of Git LFS are not fetched, only pointers to them: ${shown(lfsFiles)}`] : []),
  ];
}

/** What is fetched, for the log: never with a credential. */
export function showSource({ source }: BuildRequest): string {
  switch (source.kind) {
    case "git":
      return shownUrl(source.repoUrl);
    case "tarball":
      return "the uploaded archive";
    case "template":
      return "the template";
  }
}
