import path from "node:path";
import type { Environment } from "../context.ts";
import { type FileList, listFiles } from "./list-files.ts";
import type { Project } from "./project.ts";

/** Lists the source files of a project: those of its root, or of the parts of it that are packed. Paths are relative to the root. */
export async function listProject(
  { root, parts, buildFiles }: Pick<Project, "root" | "parts" | "buildFiles">,
  signal: AbortSignal,
  environment: Environment | undefined,
): Promise<FileList> {
  if (parts === null) return listFiles(root, signal, { environment, buildFiles });
  const lists = await Promise.all(
    parts.map(async (part) => {
      const own = buildFiles.filter((file) => file.startsWith(`${part}/`)).map((file) => file.slice(part.length + 1));
      const list = await listFiles(path.join(root, part), signal, { environment, buildFiles: own });
      const inRoot = (file: string) => `${part}/${file}`;
      return { ...list, files: list.files.map(inRoot), leftOut: list.leftOut.map(inRoot) };
    }),
  );
  return {
    files: lists.flatMap(({ files }) => files).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    sizeBytes: lists.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    leftOut: lists.flatMap(({ leftOut }) => leftOut),
    fromGit: lists.every(({ fromGit }) => fromGit),
  };
}
