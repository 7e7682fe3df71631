/** A package that conda installs, for pip. */
export interface CondaPackage {
  /** Name on PyPI. */
  name: string;
  /** Line for pip, with the versions. */
  line: string;
}

/** What every build has. */
const brought = new Set([
  "python",
  "python_abi",
  "pip",
  "setuptools",
  "wheel",
  "uv",
  "poetry",
  "pdm",
  "pipenv",
  "hatch",
]);

/** Names of conda and of PyPI for one package, where they differ. */
const namesOnPypi: Readonly<Record<string, string>> = {
  pytorch: "torch",
  "pytorch-cpu": "torch",
  "matplotlib-base": "matplotlib",
  "dask-core": "dask",
  "uvicorn-standard": "uvicorn[standard]",
  "msgpack-python": "msgpack",
  pytables: "tables",
  opencv: "opencv-python-headless",
  "py-opencv": "opencv-python-headless",
  faiss: "faiss-cpu",
  "docker-py": "docker",
  "redis-py": "redis",
  "python-graphviz": "graphviz",
  "python-kaleido": "kaleido",
  // On PyPI, only the second one comes compiled, as that of conda does.
  psycopg2: "psycopg2-binary",
};

/** Packages of Python whose names begin like those of libraries. */
const libsOfPython = "(?:rosa|cst|sass|tmux|pysal|usb1|nacl|honey|archive-c|torrent|virt-python)$";

/**
 * Packages of conda that are programs, libraries and data of the system. Their names on PyPI belong to something else, or are free for
 * anyone to take.
 */
const ofSystem = new RegExp(
  `^(?:_.*|lib(?!${libsOfPython}).*|ld_impl_.*|cuda.*|cudnn|nccl|gcc.*|gxx.*|clang.*|r-.*|perl.*|xorg-.*|sysroot.*|kernel-headers.*|.*-compilers?|compilers|${[
    ...[
      "nodejs",
      "npm",
      "yarn",
      "pnpm",
      "git",
      "git-lfs",
      "gh",
      "curl",
      "wget",
      "openssl",
      "ca-certificates",
      "openjdk",
    ],
    ...[
      "ffmpeg",
      "graphviz",
      "pandoc",
      "poppler",
      "tesseract",
      "sqlite",
      "postgresql",
      "redis-server",
      "make",
      "go",
      "rust",
    ],
    ...[
      "zlib",
      "zstd",
      "bzip2",
      "xz",
      "lz4-c",
      "readline",
      "tk",
      "ncurses",
      "expat",
      "freetype",
      "fontconfig",
      "jpeg",
      "icu",
    ],
    ...[
      "yaml",
      "yaml-cpp",
      "krb5",
      "c-ares",
      "gmp",
      "snappy",
      "unzip",
      "jq",
      "bash",
      "mkl",
      "blas",
      "openblas",
      "intel-openmp",
    ],
    ...[
      "pytorch-cuda",
      "pytorch-mutex",
      "cpuonly",
      "nomkl",
      "vc",
      "vs2015_runtime",
      "ucrt",
      "conda",
      "mamba",
      "anaconda",
    ],
  ].join("|")})$`,
);

export interface CondaPackages {
  /** Those that PyPI probably has, too. */
  packages: CondaPackage[];
  /** Names of programs and libraries of the system, which pip cannot install. */
  ofSystem: string[];
  /** Names of packages that may come from a channel that is not public. */
  ofOtherChannels: string[];
}

/** A package as a file lists it, with versions in the form of conda. */
export interface CondaListing {
  name: string;
  version: string;
  channel?: string;
}

/** What an environment.yml of conda, or the tables of pixi, list. */
export interface CondaEnvironment extends CondaPackages {
  file: string;
  /** `3.11`; null: any. */
  pythonVersion: string | null;
  /** Lines for pip. */
  pip: string[];
}

/**
 * Sorts what an environment lists for conda. Anyone can publish the name of a package of a company on PyPI, so those of channels that
 * are not known to be public are not looked for there.
 * @param channels of packages that name none.
 */
export function sortCondaPackages(listed: readonly CondaListing[], channels: readonly string[]): CondaPackages {
  const all = listed.filter(({ name }) => name !== "" && !brought.has(name));
  const arePublic = channels.every(isPublic);
  const isOther = ({ channel }: CondaListing) => !(channel === undefined ? arePublic : isPublic(channel));
  const isOfSystem = ({ name, version }: CondaListing) =>
    ofSystem.test(name) || (!Object.hasOwn(namesOnPypi, name) && compiledBuild.test(version));
  const others = all.filter((one) => !isOther(one) && !isOfSystem(one));
  return {
    packages: others.map(({ name, version }) => {
      const onPypi = Object.hasOwn(namesOnPypi, name) ? (namesOnPypi[name] ?? name) : name;
      return { name: onPypi.replace(/\[.*/, ""), line: `${onPypi}${pipVersions(version)}` };
    }),
    ofSystem: all.filter(isOfSystem).map(({ name }) => name),
    ofOtherChannels: all.filter((one) => isOther(one) && !isOfSystem(one)).map(({ name }) => name),
  };
}

/** The build of a package without Python, such as `h5eee18b_0`. Those with Python are called `py312h06a4308_0` or `pyhd8ed1ab_1`. */
const compiledBuild = /[=\s]h[0-9a-f]{6,10}_\d+$/;

/** Channels of conda whose packages everyone sees, so that their names on PyPI are those of the same projects. */
const publicChannels = new Set([
  ...["defaults", "nodefaults", "main", "free", "r", "msys2", "anaconda", "conda-forge", "bioconda", "pytorch"],
  ...["pytorch-nightly", "nvidia", "rapidsai", "huggingface", "fastai", "intel", "microsoft", "plotly", "pyviz"],
  ...["bokeh", "numba", "pyg", "dglteam", "xformers", "pytorch3d", "rdkit", "esri", "fastchan", "apple"],
]);

/** Addresses of public channels, before their names. */
const publicHosts = /^https:\/\/(?:conda\.anaconda\.org|repo\.anaconda\.com\/pkgs|(?:repo\.)?prefix\.dev)\//;

const isPublic = (channel: string) =>
  publicChannels.has(
    channel
      .trim()
      .replace(publicHosts, "")
      .replace(/^pkgs\//, "")
      .replace(/\/(?:label\/[\w.-]{1,100}|noarch|linux-64)?$/, ""),
  );

/** Converts the versions of conda, `=1.2` or `>=1,<2`, to those of pip. A form that pip does not have allows any version. */
function pipVersions(text: string): string {
  const parts = text.split(",").map((part) => versionForm.exec(part.trim()));
  if (parts.some((part) => part === null)) return "";
  return parts
    .map((part) => {
      const [, comparison = "", version = "", rest = ""] = part ?? [];
      if (version === "") return "";
      // `=1.2` of conda also allows 1.2.3.
      if (comparison === "=" || (rest !== "" && /^(?:==)?$/.test(comparison))) return `==${version}.*`;
      if (comparison === "" || comparison === "==") return `==${version}`;
      return `${comparison}${version}${comparison === "!=" && rest !== "" ? ".*" : ""}`;
    })
    .filter((part) => part !== "")
    .join(",");
}

/** A comparison, a version, whether it has further parts, and the build of conda. */
const versionForm = /^(?:(==|=|~=|!=|>=|<=|>|<)?\s*(\d+(?:\.\d+){0,9})(\.?\*)?(?:[=\s]\S*)?|\*?)$/;
