//! The style sheet of pages: light and dark as the reader chose, black on white on paper.

/// All of it. Drawings of charts come in three widths, and the one that fits is shown.
pub(super) const SHEET: &str = "\
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;\
--rail:#eaeef2;--bar:#7aa7d9;--mark:#1f7a4d;--bad:#b3261e;--fair:#7a5200;--good:#1a6b3c;\
--c0:#0b5fa5;--c1:#b34700;--c2:#00755c;--c3:#8e3a8e;--c4:#7d6608;--c5:#b8124f;--c6:#1c6c85;\
--c7:#555;--heat:#0b5fa5}
@media(prefers-color-scheme:dark){:root{--back:#14171b;--text:#e6e9ec;--soft:#a3adb7;\
--line:#3a4149;--rail:#23282e;--bar:#3f6ea5;--mark:#3fa870;--bad:#ff8a80;--fair:#f0c060;\
--good:#6fd39a;--c0:#6cb2f0;--c1:#f2a35c;--c2:#4fd1a5;--c3:#d79be0;--c4:#d9c34a;--c5:#f58fb0;\
--c6:#7fd3e8;--c7:#c8c8c8;--heat:#6cb2f0}}
body{margin:2rem auto;max-width:70rem;padding:0 1rem;background:var(--back);color:var(--text);\
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin-bottom:0}h2{font-size:1.2rem;margin-top:2.5rem;\
border-bottom:1px solid var(--line)}p{max-width:56rem}
.lead{font-size:1.25rem;margin-top:.5rem}.about,footer,figcaption{color:var(--soft);\
font-size:.9rem}figcaption b{color:var(--text)}
.judged{border-left:.4rem solid var(--fair);padding:.1rem 1rem;background:var(--rail)}
.judged.invalid{border-color:var(--bad)}.judged.publishable{border-color:var(--good)}
.judged p{margin:.4rem 0}code,pre{font:.9em ui-monospace,monospace}code{overflow-wrap:anywhere}
pre{overflow-x:auto;background:var(--rail);padding:.75rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;\
border-bottom:1px solid var(--line)}td{font-variant-numeric:tabular-nums;\
overflow-wrap:break-word}
figure{margin:1.5rem 0}.drawn{overflow-x:auto}summary{color:var(--soft);cursor:pointer;\
font-size:.9rem;padding:.3rem 0}
svg:not(.plot){width:100%;height:auto;font:14px system-ui,sans-serif}
svg text{fill:var(--text)}svg.plot{font:12px system-ui,sans-serif}
.w360,.w720,.w1080{display:none}
@media(max-width:767px){.w360{display:block}}
@media(min-width:768px) and (max-width:1139px){.w720{display:block}}
@media(min-width:1140px){.w1080{display:block}}
.figure,svg .end{text-anchor:end}svg .middle{text-anchor:middle}
.bar{fill:var(--bar)}.marked{fill:var(--mark)}
.range{stroke:var(--text);stroke-width:1.5;fill:none}
svg .soft{fill:var(--soft)}.grid{stroke:var(--line);fill:none}
.frame{stroke:var(--soft);fill:none}.line{fill:none;stroke-width:2;stroke-linejoin:round}
.guide{stroke-width:1;stroke-dasharray:2 3}.simulated{stroke-dasharray:7 4}
.emulated{stroke-dasharray:9 3 2 3}.band{opacity:.25;stroke-width:3}.faint{opacity:.07}
.mark{stroke:var(--mark);stroke-dasharray:4 3;fill:none}svg .named{fill:var(--mark)}
.rail{fill:var(--rail)}.heat{fill:var(--heat)}.h0{opacity:.15}.h1{opacity:.35}.h2{opacity:.55}\
.h3{opacity:.78}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}\
.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.line,.band{stroke:var(--c)}.band,.point,.part{fill:var(--c)}svg .name{fill:var(--c)}
@media print{:root{--back:#fff;--text:#000;--soft:#333;--line:#999;--rail:#eee;--bar:#bbb;\
--mark:#333;--c0:#000;--c1:#555;--c2:#777;--c3:#222;--c4:#666;--c5:#444;--c6:#888;--c7:#333;\
--heat:#000;--bad:#000;--fair:#000;--good:#000}body{max-width:none;margin:0}
.w360,.w1080{display:none}.w720{display:block;max-width:100%;height:auto}\
section{break-inside:auto}h2{break-after:avoid}\
figure{break-inside:avoid}details:not([open]){display:none}}
";
