package main

// pageText is the picture. Places within a panel are relative to its upper left corner.
const pageText = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{px .Height}}" width="{{.Width}}" height="{{px .Height}}" role="img" aria-labelledby="title description">
<title id="title">The dashboard's main panels</title>
<desc id="description">Panels over time: {{range $i, $b := .Boxes}}{{if $i}}, {{end}}{{html $b.Title}}{{end}}. A flood is denied, mostly by the deny cache; then Redis is gone for some seconds, the breaker opens and the fallback decides.</desc>
<style>
svg { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; }
.paper { fill: #f6f8fa; }
.panel { fill: #ffffff; stroke: #d1d9e0; }
text { fill: #1f2328; }
.quiet { fill: #59636e; font-size: 11px; }
.title { font-weight: 600; font-size: 13px; }
.grid { stroke: #d1d9e0; stroke-width: 0.7; }
.flood { fill: #bf8700; opacity: 0.12; }
.outage { fill: #cf222e; opacity: 0.12; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.area { opacity: 0.28; }
.s0 { --c: #1f6feb; } .s1 { --c: #cf222e; } .s2 { --c: #1a7f37; } .s3 { --c: #bf8700; } .s4 { --c: #8250df; }
.s5 { --c: #0e8a9c; } .s6 { --c: #bc4c00; } .s7 { --c: #bf3989; } .s8 { --c: #6e7781; }
.line { stroke: var(--c); } .area, .key { fill: var(--c); }
@media (prefers-color-scheme: dark) {
.paper { fill: #010409; }
.panel { fill: #0d1117; stroke: #3d444d; }
text { fill: #e6edf3; }
.quiet { fill: #9198a1; }
.grid { stroke: #3d444d; }
.flood { opacity: 0.17; } .outage { opacity: 0.24; }
.s0 { --c: #4493f8; } .s1 { --c: #ff7b72; } .s2 { --c: #3fb950; } .s3 { --c: #d29922; } .s4 { --c: #ab7df8; }
.s5 { --c: #39c5cf; } .s6 { --c: #f0883e; } .s7 { --c: #f778ba; } .s8 { --c: #9198a1; }
}
</style>
<rect class="paper" width="{{.Width}}" height="{{px .Height}}"/>
<text class="title" x="12" y="26" font-size="15">Caddy rate limits: the main panels, on a real Caddy and Redis</text>
<rect class="flood" x="12" y="38" width="14" height="12"/><text class="quiet" x="32" y="48">{{.Flood}} a flood of a few clients</text>
<rect class="outage" x="232" y="38" width="14" height="12"/><text class="quiet" x="252" y="48">{{.Outage}} Redis is killed</text>
{{range .Boxes}}<g transform="translate({{px .X}} {{px .Y}})">
<rect class="panel" x="0.5" y="0.5" width="{{$.PanelWidth}}" height="{{px .Height}}" rx="4"/>
<text class="title" x="12" y="22">{{html .Title}}</text>
<g transform="translate({{$.Left}} {{$.Top}})">
<rect class="flood" x="{{px .Flood}}" width="{{px .FloodW}}" height="{{$.PlotHeight}}"/>
<rect class="outage" x="{{px .Outage}}" width="{{px .OutedW}}" height="{{$.PlotHeight}}"/>
{{range .Values}}<line class="grid" x1="0" x2="{{$.PlotWidth}}" y1="{{px .At}}" y2="{{px .At}}"/><text class="quiet" x="-6" y="{{px (add .At 4)}}" text-anchor="end">{{html .Text}}</text>
{{end}}{{range .Times}}<text class="quiet" x="{{px .At}}" y="{{add 16 $.PlotHeight | px}}" text-anchor="middle">{{.Text}}</text>
{{end}}{{range .Shapes}}{{if .Area}}<path class="area s{{.Color}}" d="{{.Area}}"/>
{{end}}<path class="line s{{.Color}}" d="{{.Line}}"/>
{{end}}</g>
{{range .Legend}}<rect class="key s{{.Color}}" x="{{px .X}}" y="{{add .Y -9 | px}}" width="12" height="10" rx="2"/><text class="quiet" x="{{add .X 17 | px}}" y="{{px .Y}}">{{html .Text}}</text>
{{end}}</g>
{{end}}</svg>
`
