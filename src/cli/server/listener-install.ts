import { readFile } from "node:fs/promises";
import { CallRefused, enroll, httpSend } from "../../client/listener-client.ts";
import { installManifests } from "../../compute/kubernetes/install/install.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { readStdin } from "../terminal/stdin.ts";
import { parseWhole } from "../terminal/text.ts";
import { clientVersion } from "../version.ts";

export interface InstallListenerOptions {
  print?: boolean;
  name: string;
  namespace: string;
  agents: string;
  keyFile?: string;
  tokenFile?: string;
  image?: string;
  replicas: string;
  agentsUrl?: string;
  gateway?: string;
  ingressClass?: string;
  programs?: boolean;
}

/** Prints the Kubernetes objects of a listener, without Helm. Sends nothing except for an enrollment token to exchange. */
export async function installListener(session: Session, _: string[], options: InstallListenerOptions): Promise<void> {
  const url = session.options.url ?? session.context.env.PIERHEAD_URL;
  if (options.print !== true) throw usageFailure("Use --print, and pipe the output into kubectl apply -f -");
  if (url === undefined || !/^https?:\/\//.test(url))
    throw usageFailure("Set the address of the control plane with --url.");
  const namespaces = options.agents.split(",").map((one) => one.trim());
  if (namespaces.includes(options.namespace)) {
    throw usageFailure(
      "Agents in the namespace of the listener could act as the listener. Give --namespace another one.",
    );
  }
  const replicas = parseWhole(options.replicas); // validated before the single-use token is spent
  const listenerKey = await keyOf(session, url, options);
  const version = clientVersion();
  const items = installManifests({
    // The API refuses names of this prefix in deployments, so that no agent can name the listener's objects.
    name: /^pierhead(-|$)/.test(options.name) ? options.name : `pierhead-${options.name}`,
    namespace: options.namespace,
    version,
    controlPlaneUrl: url,
    namespaces,
    listenerKey,
    image: options.image ?? `pierhead:${version}`,
    replicas,
    agentsUrl: options.agentsUrl ?? "",
    gateway: options.gateway ?? "",
    ingressClass: options.ingressClass ?? "",
    mayRunPrograms: options.programs === true,
  });
  session.terminal.say(
    "These objects do not include the gateway in the cluster, which checks callers, counts requests and wakes deployments. To get it, install the Helm chart instead.",
  );
  const list = { apiVersion: "v1", kind: "List", items };
  session.answer(list, () => JSON.stringify(list, null, 2));
}

async function keyOf(session: Session, url: string, { keyFile, tokenFile }: InstallListenerOptions): Promise<string> {
  const [file] = [keyFile, tokenFile].filter((one) => one !== undefined);
  if (file === undefined || (keyFile !== undefined && tokenFile !== undefined)) {
    throw usageFailure(
      "Give either the listener's key with --key-file FILE or a token with --token-file FILE. FILE - is stdin.",
    );
  }
  const secret = (await (file === "-" ? readStdin(session.context) : readFile(file, "utf8"))).trim();
  if (keyFile !== undefined) return secret;
  try {
    return (await enroll(httpSend(url, secret), session.signal)).listener_key;
  } catch (error) {
    const isRefused = error instanceof CallRefused && error.status === 401;
    const next = isRefused ? "A token is valid for one day and one use. Request a new one." : "";
    throw new CliFailure("Could not exchange the token for a key.", {
      because: `${(error as Error).message} ${next}`.trim(),
    });
  }
}
