import path from "node:path";
import type { Session } from "../session.ts";
import { findProject } from "../source/project.ts";
import { harmless } from "../terminal/terminal.ts";

/** Shows what `pierhead deploy` would deploy from a directory, without a server. */
export async function detect(session: Session, [given]: string[], options: { config?: string }): Promise<void> {
  const directory = path.resolve(session.context.cwd, given ?? ".");
  const { root, parts, configPath, name, found, isRecognized } = await findProject(
    directory,
    options.config,
    session.context.cwd,
  );
  const packed = parts === null ? [root] : parts.map((part) => path.join(root, part));
  const answer = { name, found, config_path: configPath, root, recognized: isRecognized };
  session.answer(answer, () =>
    harmless(
      [
        `Found ${found}`,
        `  Name    ${name}`,
        `  Config  ${configPath}`,
        ...(root === directory ? [] : [`  Packs   ${packed.join(", ")}`]),
      ].join("\n"),
    ),
  );
}
