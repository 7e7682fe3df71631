import { oneOf, optional, text, whole } from "./setting.ts";

export const registryAuthFile = optional(
  "PIERHEAD_REGISTRY_AUTH_FILE",
  "none",
  "Docker compute: a docker config.json with credentials of registries that images are pulled from.",
);

/** Images of the docker compute: how they are built, where they are pushed to and come from. */
export const dockerSettings = {
  dockerImagesMaxGib: whole(
    "PIERHEAD_DOCKER_IMAGES_MAX_GIB",
    20,
    1,
    100_000,
    "Docker compute: disk that images may take before pulled ones that nothing uses are removed.",
  ),
  agentDatabases: oneOf(
    "PIERHEAD_AGENT_DATABASES",
    ["servers", "containers"] as const,
    "What new deployments get: databases on the servers that `PIERHEAD_AGENT_POSTGRES_URL` and `PIERHEAD_AGENT_REDIS_URL` name, or, with docker compute, a PostgreSQL and a Redis of their own in containers.",
  ),
  agentPostgresImage: text(
    "PIERHEAD_AGENT_POSTGRES_IMAGE",
    "postgres:17",
    "Docker compute: image of such a PostgreSQL, the official one or one that begins alike.",
  ),
  agentRedisImage: text("PIERHEAD_AGENT_REDIS_IMAGE", "redis:7", "Docker compute: image of such a Redis."),
  registry: oneOf(
    "PIERHEAD_REGISTRY",
    ["builtin", "none"] as const,
    "Docker compute: where images of internal_docker deployments are pushed to.",
  ),
  registryProgram: optional(
    "PIERHEAD_REGISTRY_PROGRAM",
    "/usr/bin/docker-registry, if it is there",
    "The CNCF distribution registry, which keeps pushed images.",
  ),
  registryUrl: optional(
    "PIERHEAD_REGISTRY_URL",
    "a registry that runs here",
    "Docker compute: the registry of the operator that keeps pushed images, `https://host/prefix`; its credentials are in the auth file.",
  ),
  registryHost: optional(
    "PIERHEAD_REGISTRY_HOST",
    "from the request",
    "Host and port that clients push images to, when it is not that of the API.",
  ),
  registryAuthFile,
  nodeImage: text(
    "PIERHEAD_NODE_IMAGE",
    "node:24-slim",
    "Docker compute: image with Node 24 and npm that JavaScript agents are built on.",
  ),
  pythonImage: text(
    "PIERHEAD_PYTHON_IMAGE",
    "python:{version}-slim",
    "Docker compute: image with Python and pip that Python agents are built on; `{version}` is the one they ask for, or 3.12.",
  ),
  buildMemoryMib: whole(
    "PIERHEAD_BUILD_MEMORY_MIB",
    2_048,
    128,
    1_048_576,
    "Docker compute: memory of each program that runs in a build.",
  ),
  buildCpuCores: whole("PIERHEAD_BUILD_CPU_CORES", 2, 1, 256, "Docker compute: cores a build may use."),
};
