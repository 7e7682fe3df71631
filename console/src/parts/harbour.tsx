/** A harbour light at night, drawn as SVG. */
export function Harbour() {
  return (
    <svg className="harbour" viewBox="0 0 720 900" preserveAspectRatio="xMidYMax slice" aria-hidden="true">
      <defs>
        <linearGradient id="sky" x1="0" y1="0" x2="0" y2="1">
          <stop offset="0" stopColor="#061016" />
          <stop offset=".62" stopColor="#0c2a38" />
          <stop offset=".78" stopColor="#17485b" />
        </linearGradient>
        <linearGradient id="beam" x1="0" y1="0" x2="1" y2="0">
          <stop offset="0" stopColor="#ffd27a" stopOpacity=".55" />
          <stop offset="1" stopColor="#ffd27a" stopOpacity="0" />
        </linearGradient>
        <radialGradient id="glow">
          <stop offset="0" stopColor="#ffdb94" stopOpacity=".7" />
          <stop offset=".12" stopColor="#ffc24a" stopOpacity=".3" />
          <stop offset=".35" stopColor="#ffc24a" stopOpacity=".1" />
          <stop offset="1" stopColor="#ffc24a" stopOpacity="0" />
        </radialGradient>
        <linearGradient id="sea" x1="0" y1="0" x2="0" y2="1">
          <stop offset="0" stopColor="#123c4d" />
          <stop offset="1" stopColor="#061218" />
        </linearGradient>
      </defs>
      <rect x="-900" width="2700" height="900" fill="url(#sky)" />
      {[
        [90, 120],
        [160, 210],
        [420, 90],
        [560, 170],
        [640, 60],
        [300, 150],
        [505, 250],
        [60, 320],
        [660, 300],
      ].map(([x, y]) => (
        <circle key={`${x}`} cx={x} cy={y} r="1.1" fill="#cfe6f0" opacity=".5" />
      ))}
      <path d="M-900 680h900c120-26 200-20 300-8s260 14 420-18v60H-900z" fill="#0a212c" />
      <path d="M226 476 720 372v196z" fill="url(#beam)" />
      <circle cx="220" cy="476" r="300" fill="url(#glow)" />
      <rect x="-900" y="690" width="2700" height="210" fill="url(#sea)" />
      <g fill="#ffce70">
        <rect x="205" y="718" width="30" height="3" rx="1.5" opacity=".8" />
        <rect x="192" y="736" width="52" height="3" rx="1.5" opacity=".5" />
        <rect x="210" y="756" width="38" height="3" rx="1.5" opacity=".36" />
        <rect x="180" y="780" width="64" height="3" rx="1.5" opacity=".22" />
        <rect x="206" y="808" width="46" height="3" rx="1.5" opacity=".14" />
      </g>
      <g fill="#e9f3f7">
        <path d="M206 500h28l10 164h-48z" opacity=".94" />
        <path d="M203 494h34v7h-34z" />
        <path d="M208 462h24v28h-24z" fill="#ffcf73" />
        <path d="M206 462h28l-14-15z" />
      </g>
      <path d="M201.5 574h37l1.8 30h-40.6z" fill="#c9463e" />
      <path d="M-900 664h1370v14H-900z" fill="#1d4252" />
      {[-370, -290, -210, -130, -50, 30, 110, 190, 270, 350, 430].map((x) => (
        <rect key={x} x={x} y="678" width="9" height="44" fill="#16343f" />
      ))}
    </svg>
  );
}
