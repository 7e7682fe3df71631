import { registryOf } from "../../compute/docker/images/images.ts";
import { isListedRegistry } from "../../compute/docker/images/registry-auth.ts";
import { addressProblem } from "../../integrations/outbound-address.ts";
import type { ImageTarget } from "../build.ts";
import { BuildFailure } from "../failure.ts";
import { pulledNames } from "./base-names.ts";
import { findDownload } from "./downloads.ts";
import { isKnownRegistry } from "./known-registries.ts";

export type Registries = Pick<ImageTarget, "registryAuthFile" | "allowsPrivateRegistries">;

/**
 * Returns why the container engine must not call the registry of a user's image, or null. The engine is inside the operator's
 * network, calls loopback without TLS, and quotes what it gets. It looks a name up again and follows a registry's redirects and token
 * service anywhere, so a public address is not enough.
 */
export async function registryProblem(uri: string, { registryAuthFile, allowsPrivateRegistries }: Registries) {
  const host = registryOf(uri);
  if (allowsPrivateRegistries !== false || host === "docker.io") return null;
  // The operator's own registry.
  if (registryAuthFile !== null && (await isListedRegistry(registryAuthFile, uri))) return null;
  if (isKnownRegistry(host)) return null;
  const problem = await addressProblem(host);
  return problem === null
    ? `This server does not know the registry ${host}, which could lead it into the operator's network. An operator can list it in PIERHEAD_REGISTRY_AUTH_FILE, also without a credential.`
    : `${problem} For this registry alone, list it in PIERHEAD_REGISTRY_AUTH_FILE.`;
}

/**
 * Checks what a Dockerfile makes the engine itself call: registries, and the addresses of downloads. The engine follows redirects and
 * runs in the network of the machine, so no address of a download can be checked.
 * @throws BuildFailure `Unsupported`
 */
export async function checkEngineCalls(dockerfile: string, registries: Registries): Promise<void> {
  const download = registries.allowsPrivateRegistries === false ? findDownload(dockerfile) : null;
  if (download !== null) {
    throw new BuildFailure(
      "Unsupported",
      `'${download}' makes the container engine download, which reaches the operator's network. Write 'ADD https://... /target' in one line without variables, or download with a RUN instruction. A local file needs a name without a variable at its beginning. An operator can allow it with PIERHEAD_ALLOW_PRIVATE_NETWORK=true.`,
    );
  }
  for (const name of pulledNames(dockerfile)) {
    const problem = await registryProblem(name, registries);
    if (problem !== null) throw new BuildFailure("Unsupported", `The Dockerfile needs the image ${name}. ${problem}`);
  }
}
