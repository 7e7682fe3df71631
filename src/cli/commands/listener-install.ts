import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { installManifests } from "../../compute/kubernetes/install.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { clientVersion } from "../version.ts";

export interface InstallListenerOptions {
  print?: boolean;
  name: string;
  namespace: string;
  agents?: string;
  keyFile?: string;
  image?: string;
  replicas: string;
  agentsUrl?: string;
  gateway?: string;
  ingressClass?: string;
}

/** Prints the objects of a listener for a cluster, without Helm. Nothing is sent anywhere. */
export async function installListener(session: Session, _: string[], options: InstallListenerOptions): Promise<void> {
  const url = session.options.url ?? session.context.env.PIERHEAD_URL;
  if (options.print !== true) throw usageFailure("Give --print, and pipe what it prints into kubectl apply -f -");
  if (url === undefined || !/^https?:\/\//.test(url))
    throw usageFailure("Give the control plane's address with --url.");
  if (options.keyFile === undefined) throw usageFailure("Give the listener's key with --key-file FILE; - is stdin.");
  const version = clientVersion();
  const items = installManifests({
    ...{ name: options.name, namespace: options.namespace, version, controlPlaneUrl: url },
    namespaces: (options.agents ?? options.namespace).split(",").map((one) => one.trim()),
    listenerKey: (await readKey(options.keyFile, session)).trim(),
    image: options.image ?? `pierhead:${version}`,
    replicas: Number(options.replicas),
    agentsUrl: options.agentsUrl ?? "",
    gateway: options.gateway ?? "",
    ingressClass: options.ingressClass ?? "",
  });
  const list = { apiVersion: "v1", kind: "List", items };
  session.answer(list, () => JSON.stringify(list, null, 2));
}

const readKey = (file: string, { context }: Session): Promise<string> =>
  file === "-" ? text(context.stdin) : readFile(file, "utf8");
