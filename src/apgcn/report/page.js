"use strict";
(() => {
  const { figures } = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Axes and text have the colours of the page; a printed page is always light.
  const colours = (printing) => {
    const isDark = dark.matches && !printing;
    const ink = isDark ? "#e7eaee" : "#1b1f24";
    const rule = isDark ? "#353c45" : "#d9dde3";
    const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: rule, tickfont: { color: ink } };
    return { font: { color: ink }, xaxis: axis, yaxis: axis, yaxis2: axis };
  };
  const merge = (layout, added) => ({
    ...layout,
    font: { ...layout.font, ...added.font },
    xaxis: { ...layout.xaxis, ...added.xaxis },
    yaxis: { ...layout.yaxis, ...added.yaxis },
    ...(layout.yaxis2 && { yaxis2: { ...layout.yaxis2, ...added.yaxis2 } }),
  });
  const draw = (element, printing) => {
    const { data, layout } = figures[element.dataset.figure];
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    return Plotly.react(element, data, merge(layout, colours(printing)), options);
  };
  const plots = () => document.querySelectorAll(".plot");
  const redraw = (printing) => plots().forEach((element) => draw(element, printing));

  redraw(false);
  dark.addEventListener("change", () => redraw(false));
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((details) => { details.dataset.was = details.open ? "open" : ""; details.open = true; });
    redraw(true);
  });
  window.addEventListener("afterprint", () => {
    document.querySelectorAll("details").forEach((details) => { details.open = details.dataset.was === "open"; });
    redraw(false);
  });
})();
