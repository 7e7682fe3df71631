import { cp, mkdir } from "node:fs/promises";
import path from "node:path";
import { fetchCommit } from "../integrations/git.ts";
import { shownUrl } from "../integrations/git-failure.ts";
import { archiveEntriesMax, unpackArchive } from "./archive.ts";
import type { BuildRequest } from "./build.ts";
import { templateIgnored } from "./templates.ts";

/**
 * Puts the source of a build into `directory`, which is empty.
 * @returns what was fetched, in words for the log.
 * @throws BuildFailure `ArchiveRefused`, `FetchFailed`; GitFailure
 */
export async function fetchSource(request: BuildRequest, directory: string, signal: AbortSignal): Promise<string> {
  const { source, timeoutMs, diskBytesMax } = request;
  await mkdir(directory, { recursive: true });
  switch (source.kind) {
    case "git": {
      const { repoUrl, commitSha, credential, allowLocal, allowPrivateNetwork } = source;
      await fetchCommit({
        repoUrl,
        commitSha,
        credential,
        allowLocal,
        allowPrivateNetwork,
        directory,
        signal,
        timeoutMs,
      });
      return `commit ${commitSha.slice(0, 12)}`;
    }
    case "tarball": {
      const limits = { bytesMax: diskBytesMax, entriesMax: archiveEntriesMax };
      const { entries, bytes } = await unpackArchive(source.path, directory, { sha256: source.sha256, limits, signal });
      return `${entries} entries, ${bytes} bytes`;
    }
    case "template":
      await cp(source.directory, directory, {
        recursive: true,
        filter: (file) => !templateIgnored.has(path.basename(file)),
      });
      return path.basename(source.directory);
  }
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
