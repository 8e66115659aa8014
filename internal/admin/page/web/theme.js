// Dark, light, or as the system has it.

const themes = ["auto", "dark", "light"];
const signs = { auto: "◐", dark: "☾", light: "☀" };

// startTheme applies the theme that the reader chose before, and lets a button change it.
export function startTheme(button) {
  let theme = themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = signs[theme];
    button.setAttribute("aria-label", `Theme: ${theme}`);
    button.title = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    localStorage.setItem("theme", theme);
    apply();
  });
  apply();
}
