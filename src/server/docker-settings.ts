import { oneOf, optional, text, whole } from "./setting.ts";

export const registryAuthFile = optional(
  "PIERHEAD_REGISTRY_AUTH_FILE",
  "none",
  "Docker compute: a Docker config.json with credentials for the registries that images are pulled from.",
);

export const dockerDiskMib = whole(
  "PIERHEAD_DOCKER_DISK_MIB",
  10_240,
  64,
  1_000_000_000,
  "Docker compute: limit in MiB for the files that a replica writes into its container, and for those in its state directory. A replica that exceeds it is stopped as `OutOfDisk` and started again.",
);

/** Settings of the docker compute: disk space, building, pushing and pulling images. */
export const dockerSettings = {
  dockerDiskMib,
  dockerImagesMaxGib: whole(
    "PIERHEAD_DOCKER_IMAGES_MAX_GIB",
    20,
    1,
    100_000,
    "Docker compute: disk space for images in GiB. Above it, unused pulled images are removed.",
  ),
  agentDatabases: oneOf(
    "PIERHEAD_AGENT_DATABASES",
    ["servers", "containers"] as const,
    "Databases of new deployments: on the servers in `PIERHEAD_AGENT_POSTGRES_URL` and `PIERHEAD_AGENT_REDIS_URL`, or, with docker compute, in their own PostgreSQL and Redis containers.",
  ),
  agentPostgresImage: text(
    "PIERHEAD_AGENT_POSTGRES_IMAGE",
    "postgres:17",
    "Docker compute: image of those PostgreSQL containers, the official one or one with the same entrypoint.",
  ),
  agentRedisImage: text("PIERHEAD_AGENT_REDIS_IMAGE", "redis:7", "Docker compute: image of those Redis containers."),
  registry: oneOf(
    "PIERHEAD_REGISTRY",
    ["builtin", "none"] as const,
    "Docker compute: registry to which images of internal_docker deployments are pushed.",
  ),
  registryProgram: optional(
    "PIERHEAD_REGISTRY_PROGRAM",
    "/usr/bin/docker-registry, if it exists",
    "Program of the CNCF distribution registry, which stores pushed images.",
  ),
  registryUrl: optional(
    "PIERHEAD_REGISTRY_URL",
    "the built-in registry",
    "Docker compute: an external registry that stores pushed images, `https://host/prefix`. Its credentials are in the auth file.",
  ),
  registryHost: optional(
    "PIERHEAD_REGISTRY_HOST",
    "from the request",
    "Host and port to which clients push images, if they differ from those of the API.",
  ),
  registryAuthFile,
  nodeImage: text(
    "PIERHEAD_NODE_IMAGE",
    "node:24-slim",
    "Docker compute: base image with Node 24 and npm for JavaScript agents.",
  ),
  pythonImage: text(
    "PIERHEAD_PYTHON_IMAGE",
    "python:{version}-slim",
    "Docker compute: base image with Python and pip for Python agents. `{version}` is the version the agent requests, or 3.12.",
  ),
  buildMemoryMib: whole(
    "PIERHEAD_BUILD_MEMORY_MIB",
    2_048,
    128,
    1_048_576,
    "Docker compute: memory limit in MiB of each program in a build.",
  ),
  buildCpuCores: whole("PIERHEAD_BUILD_CPU_CORES", 2, 1, 256, "Docker compute: CPU cores that a build may use."),
};
