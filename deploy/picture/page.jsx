// Draws the panels of a dashboard with Grafana's own components, for picture_test.go. window.recording holds the
// dashboard's JSON as it is (dashboard), the times of the first and the last point in ms (from, to), the ms between points
// (step), and for each panel a list of series, which have a name and points of time and value.
import React from 'react';
import { createRoot } from 'react-dom/client';
import '@fontsource/inter/latin-400.css';
import '@fontsource/inter/latin-500.css';
import { createTheme, dateTime, EventBusSrv, FieldType, getDisplayProcessor, ThemeContext, toDataFrame } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { BigValue, GlobalStyles, PanelChrome, PanelContextProvider, TimeSeries } from '@grafana/ui';

const { dashboard, from, to, step, series } = window.recording;
const theme = createTheme({ colors: { mode: 'dark' } });
const timeZone = 'utc';
const timeRange = { from: dateTime(from), to: dateTime(to), raw: { from: dateTime(from), to: dateTime(to) } };

// Grafana's grid has 24 columns and rows of 30 px, with 8 px between cells. The page is as wide as the window.
const gap = 8, rowHeight = 30, columnWidth = (window.innerWidth - gap) / 24;

const place = ({ x, y, w, h }) => ({
  position: 'absolute', left: gap + x * columnWidth, top: gap + y * (rowHeight + gap),
  width: w * columnWidth - gap, height: h * (rowHeight + gap) - gap,
});

// frames returns the series of a panel as Grafana's data source does: a step without a value is null, which draws a gap.
function frames(panel, own) {
  if (panel.fieldConfig.overrides.length > 0) {
    throw new Error(`${panel.title}: the picture knows no overrides of fields`);
  }
  const times = Array.from({ length: (to - from) / step + 1 }, (_, i) => from + i * step);
  return own.map(({ name, points }, seriesIndex) => {
    const values = new Map(points);
    const frame = toDataFrame({
      fields: [
        { name: 'Time', type: FieldType.time, values: times, config: {} },
        {
          name: 'Value', type: FieldType.number, values: times.map((t) => values.get(t) ?? null),
          config: { ...panel.fieldConfig.defaults, displayNameFromDS: name },
        },
      ],
    });
    for (const field of frame.fields) {
      field.state = { seriesIndex }; // chooses the colour
      field.display = getDisplayProcessor({ field, theme, timeZone });
    }
    return frame;
  });
}

function Chart({ panel, data, width, height }) {
  return (
    <PanelContextProvider value={{ eventBus: new EventBusSrv() }}>
      <TimeSeries {...{ width, height, timeRange, timeZone }} frames={data} legend={panel.options.legend} />
    </PanelContextProvider>
  );
}

// Stat shows the last value, as the only choice of the dashboard's reduceOptions says.
function Stat({ panel, data, width, height }) {
  const { colorMode, graphMode, justifyMode, textMode, reduceOptions } = panel.options;
  if (String(reduceOptions.calcs) !== 'lastNotNull' || data.length > 1) {
    throw new Error(`${panel.title}: the picture knows the last value of one series`);
  }
  const field = data[0].fields[1];
  const last = field.values.filter((v) => v !== null).at(-1);
  const numbers = field.values.map((v) => v ?? 0);
  field.state = { ...field.state, range: { min: Math.min(...numbers), max: Math.max(...numbers) } };
  return (
    <BigValue {...{ width, height, theme, colorMode, graphMode, justifyMode, textMode }} value={field.display(last)}
      sparkline={{ y: field, x: data[0].fields[0] }} />
  );
}

function Panel({ panel, own }) {
  const at = place(panel.gridPos);
  if (panel.type === 'row') {
    return <div style={{ ...at, ...theme.typography.h6, color: theme.colors.text.primary, padding: 4 }}>{panel.title}</div>;
  }
  const View = { stat: Stat, timeseries: Chart }[panel.type];
  return (
    <div style={at}>
      <PanelChrome title={panel.title} description={panel.description} width={at.width} height={at.height}>
        {(width, height) => <View panel={panel} data={frames(panel, own)} {...{ width, height }} />}
      </PanelChrome>
    </div>
  );
}

function Dashboard() {
  const bottom = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h));
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ position: 'relative', height: bottom * (rowHeight + gap) + gap }}>
        {dashboard.panels.map((panel, i) => <Panel key={i} panel={panel} own={series[i]} />)}
      </div>
    </ThemeContext.Provider>
  );
}

await initPluginTranslations('grafana');
createRoot(document.getElementById('dashboard')).render(<Dashboard />);
