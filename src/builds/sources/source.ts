import { cp, mkdir, rm } from "node:fs/promises";
import path from "node:path";
import { fetchCommit, type LeftOut } from "../../integrations/git.ts";
import { shownUrl } from "../../integrations/git-failure.ts";
import type { BuildRequest } from "../build.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { archiveEntriesMax, unpackArchive } from "./archive.ts";
import { downloadArchive } from "./download-archive.ts";
import { templateIgnored } from "./templates.ts";

/**
 * Fetches the source of a build into its empty directory.
 * @returns a description of what was fetched, for the log.
 * @throws BuildFailure `ArchiveRefused`, `FetchFailed`; GitFailure
 */
export async function fetchSource(
  request: BuildRequest,
  { sourceDir: directory, signal, log, noteCommit }: Pick<BuildContext, "sourceDir" | "signal" | "log" | "noteCommit">,
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
      if (leftOut.commit !== null) noteCommit?.(leftOut.commit);
      return `commit ${commitSha.slice(0, 12)}`;
    }
    case "tarball": {
      const limits = { bytesMax: diskBytesMax, entriesMax: archiveEntriesMax };
      const { place, sha256 } = source;
      const file = "path" in place ? place.path : await downloadArchive(place.url, `${directory}.tar.gz`, signal);
      const { entries, bytes } = await unpackArchive(file, directory, { sha256, limits, signal });
      if ("url" in place) await rm(file, { force: true });
      return `${entries} entries, ${bytes} bytes`;
    }
    case "template":
      // The operator's templates may contain links. A copied link would lead out of the source, or nowhere in an image.
      await cp(source.directory, directory, {
        recursive: true,
        dereference: true,
        filter: (file) => !templateIgnored.has(path.basename(file)),
      });
      return path.basename(source.directory);
  }
}

/** Names the parts of a repository that are not fetched, because the credential is valid for this repository only. */
function describeLeftOut({ submodules, lfsFiles }: LeftOut): string[] {
  const shown = (paths: string[]) => `${paths.slice(0, 5).join(", ")}${paths.length > 5 ? ", ..." : ""}`;
  return [
    ...(submodules.length > 0 ? [`Submodules are not fetched, their directories are empty: ${shown(submodules)}`] : []),
    ...(lfsFiles.length > 0 ? [`Git LFS contents are not fetched, the files are pointers: ${shown(lfsFiles)}`] : []),
  ];
}

/** Returns the name of the source for the log, without credentials. */
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
