import { stat } from "node:fs/promises";
import path from "node:path";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { isGitUrl } from "../source/git-source.ts";
import { deployDirectory } from "./deploy-directory.ts";
import { deployGit } from "./deploy-git.ts";
import { deployImage } from "./deploy-image.ts";
import { buildSettingsOf, type DeployOptions } from "./deploy-options.ts";
import { deployTemplate } from "./deploy-template.ts";
import { deployLatest } from "./restart.ts";

/** Deploys a local directory, a git URL, a template or an image, depending on `source`. */
export async function deploy(session: Session, [given]: (string | undefined)[], options: DeployOptions): Promise<void> {
  if (options.latest) return deployLatest(session, nameOnly(given, options), options);
  if (options.image !== undefined) {
    const other = given ?? options.template;
    if (other !== undefined) throw usageFailure(`Give either "${other}" or the image ${options.image}, not both.`);
    return deployImage(session, options.image, options);
  }
  if (options.template !== undefined) {
    if (given !== undefined)
      throw usageFailure(`Give either "${given}" or the template ${options.template}, not both.`);
    return deployTemplate(session, options.template, options);
  }
  const source = given ?? ".";
  if (isGitUrl(source)) return deployGit(session, source, options);
  const directory = path.resolve(session.context.cwd, source);
  const found = await stat(directory).catch(() => undefined);
  if (found?.isDirectory()) {
    if (options.ref !== undefined) throw usageFailure("--ref belongs to a git URL, not to a directory.");
    return deployDirectory(session, directory, options);
  }
  if (found !== undefined || !/^[a-z0-9][a-z0-9-]*$/.test(source)) throw unknownSource(source);
  const client = await session.client();
  const { templates } = await client.listTemplates({}, { signal: session.signal });
  const ids = templates.map(({ id }) => id);
  if (!ids.includes(source)) {
    const hints = [`Begin a project: pierhead init ${source}`, `Templates: ${ids.join(", ")}`];
    throw new CliFailure(`"${source}" is neither a directory nor a template.`, { hints });
  }
  await deployTemplate(session, source, options);
}

/** Returns the deployment that `--latest` names. @throws CliFailure for input that it would ignore. */
function nameOnly(given: string | undefined, options: DeployOptions): string {
  const { name, ref, config, template, image, envFrom, listener, namespace, where } = options;
  const only = name ?? given;
  if (only === undefined)
    throw usageFailure("--latest needs the name of a deployment.", "pierhead deploy --latest NAME");
  const isMore = [ref, config, template, image, envFrom, listener, namespace, where].some(
    (value) => value !== undefined,
  );
  if (isMore || (name !== undefined && given !== undefined) || Object.keys(buildSettingsOf(options)).length > 0) {
    throw usageFailure(
      "--latest takes only the name of a deployment.",
      "Change its source or commands: pierhead change NAME",
      "Change its variables: pierhead env import NAME FILE",
    );
  }
  return only;
}

function unknownSource(source: string): CliFailure {
  return usageFailure(
    `"${source}" is not a directory.`,
    "A git URL starts with https://, ssh:// or file://",
    "To deploy a template: pierhead deploy --template ID",
    "To deploy an image: pierhead deploy --image IMAGE",
  );
}
