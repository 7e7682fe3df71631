/** Registries whose operators choose the addresses that they send a client to, and whose users do not. */
const hosts: ReadonlySet<string> = new Set([
  ...["docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"],
  ...["ghcr.io", "quay.io", "registry.gitlab.com", "codeberg.org"],
  ...["gcr.io", "us.gcr.io", "eu.gcr.io", "asia.gcr.io", "mirror.gcr.io", "registry.k8s.io"],
  ...[
    "public.ecr.aws",
    "ecr-public.aws.com",
    "mcr.microsoft.com",
    "icr.io",
    "container-registry.oracle.com",
    "registry.digitalocean.com",
  ],
  ...["nvcr.io", "cgr.dev", "docker.elastic.co", "registry.suse.com", "registry.fedoraproject.org"],
  ...["registry.access.redhat.com", "registry.redhat.io", "registry.fly.io", "registry.heroku.com"],
]);

/** Google's Artifact Registry, Amazon's ECR, Azure's and IBM's registries have a host for each customer or region. */
const hostForms = [
  /^[a-z0-9-]+-docker\.pkg\.dev$/,
  /^\d{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$/,
  /^\d{12}\.dkr-ecr(-fips)?\.[a-z0-9-]+\.on\.aws$/,
  /^[a-z0-9]+(-[a-z0-9]+)?\.azurecr\.(io|us|cn)$/,
  /^[a-z]{2}\d?\.icr\.io$/,
];

/**
 * Returns whether a registry leads a container engine to addresses of its own only. Any other one may name a token service or a redirect
 * that the engine follows into the operator's network, and receives what it finds there.
 */
export const isKnownRegistry = (host: string): boolean => hosts.has(host) || hostForms.some((form) => form.test(host));
