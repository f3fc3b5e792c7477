"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Axes and letters take the colours of the page; on paper it is light.
  const colours = (onPaper) => {
    const night = dark.matches && !onPaper;
    const ink = night ? "#e7eaee" : "#1b1f24";
    const rule = night ? "#353c45" : "#d9dde3";
    const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: rule, tickfont: { color: ink } };
    return { font: { color: ink }, xaxis: axis, yaxis: axis, yaxis2: axis };
  };
  const merged = (layout, added) => ({
    ...layout,
    font: { ...layout.font, ...added.font },
    xaxis: { ...layout.xaxis, ...added.xaxis },
    yaxis: { ...layout.yaxis, ...added.yaxis },
    ...(layout.yaxis2 && { yaxis2: { ...layout.yaxis2, ...added.yaxis2 } }),
  });
  const draw = (place, onPaper) => {
    const { data, layout } = figures[place.dataset.figure];
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    return Plotly.react(place, data, merged(layout, colours(onPaper)), options);
  };
  const all = () => document.querySelectorAll(".plot");
  const redraw = (onPaper) => all().forEach((place) => draw(place, onPaper));

  redraw(false);
  dark.addEventListener("change", () => redraw(false));
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.dataset.was = part.open ? "open" : ""; part.open = true; });
    redraw(true);
  });
  window.addEventListener("afterprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = part.dataset.was === "open"; });
    redraw(false);
  });
})();
