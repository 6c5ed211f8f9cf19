// Drives a real browser for one scenario. What only the test can do (kill the master, end a task) is
// asked for by a line on standard output, and answered by a line on standard input.
//
// usage: node browser.mjs SCENARIO ADDRESS CHROMIUM [ARGUMENT...]

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium } from 'playwright-core';

const [scenario, address, executablePath, ...rest] = process.argv.slice(2);
const base = new URL(address).origin;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const complaints = [];

function check(holds, what) {
  if (!holds) throw new Error(what);
}

/** Asks the test to do something, and waits until it has; returns what it says. */
async function ask(what) {
  console.log(`ask ${what}`);
  const { value } = await lines.next();
  return value;
}

/** Waits until `look`, in the page, finds something. */
async function until(page, what, look, argument) {
  const options = { timeout: 60_000, polling: 100 };
  const found = await page.waitForFunction(look, argument, options).catch(() => null);
  check(found !== null, `${what}: not within a minute; the page reads: ${await page.innerText('main').catch(() => '?')}`);
}

/** Opens a page that takes down what its console says and what its policy forbids. */
async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on('console', (message) => {
    // A request that fails while the master is away is no fault of the page.
    const away = message.text().startsWith('Failed to load resource');
    if (!(away && page.mayFail)) complaints.push(`console: ${message.text()} (${message.location().url}) at ${page.url()}`);
  });
  page.on('pageerror', (error) => complaints.push(`error: ${error.message} at ${page.url()}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  return page;
}

/** Opens a page and lets it in with the ticket of the address. */
async function enter(browser, options) {
  const page = await open(browser, options);
  await page.goto(address);
  await page.waitForURL(`${base}/`);
  return page;
}

/** Presses a button, and waits for the page that it leads to. */
async function press(page, button) {
  await Promise.all([page.waitForEvent('load'), button.click()]);
}

/** The page is the same once its script would have looked again, and without a script it is not loaded again. */
async function stays(page) {
  const before = await page.innerText('body');
  await page.waitForTimeout(3_000);
  const after = await page.innerText('body');
  check(before === after, `${page.url()} was: ${before}\nand is: ${after}`);
  check(!(await page.content()).includes('http-equiv="refresh"'), `${page.url()} is loaded again without script`);
}

/** Every rule of WCAG 2.2 A and AA holds on the page. */
async function accessible(page) {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const { violations } = await new AxeBuilder({ page }).withTags(tags).analyze();
  const told = violations.map((rule) =>
    `${rule.id}: ${rule.help}: ${rule.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);
  check(told.length === 0, `${page.url()}: ${told.join('\n')}`);
}

/** Nothing is wider than the page. */
async function fits(page) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(wide <= 0, `${page.url()} is ${wide} pixels too wide at ${page.viewportSize().width}`);
}

const scenarios = {
  /** A job's page goes to 100 % by itself, and shows why tasks failed. */
  async follows(browser) {
    const [job] = rest;
    const page = await enter(browser);
    await page.goto(`${base}/jobs/${job}`);
    const born = await page.evaluate(() => (window.born = Math.random()));
    await ask('go');
    await until(page, 'the job ends', () => document.title.includes(' failed'));
    check(born === (await page.evaluate(() => window.born)), 'the page was loaded anew');

    const failure = await page.innerText('article.failure');
    check(/1 attempt: ended with exit code 3/.test(failure), `the cause: ${failure}`);
    check(/beta out of range/.test(failure), `the last line of standard error: ${failure}`);
    check(await page.locator('figure.timeline path').count() > 0, 'there is no timeline');
  },

  /** Why a job waits is said host by host. */
  async why(browser) {
    const [job, ...hosts] = rest;
    const page = await enter(browser);
    await page.goto(`${base}/jobs/${job}`);
    await page.getByRole('link', { name: 'Why does it wait?' }).click();
    for (const host of hosts) {
      const row = page.getByRole('row').filter({ hasText: host });
      check(/GPU/.test(await row.innerText()), `${host} has no reason`);
    }
  },

  /** What a task writes is shown as it writes it. */
  async output(browser) {
    const [job] = rest;
    const page = await enter(browser);
    await page.goto(`${base}/jobs/${job}/tasks/1`);
    const holds = (text) => document.querySelector('pre[aria-labelledby=stdout]').textContent.includes(text);
    await until(page, 'the first line', holds, 'first');
    await ask('go');
    await until(page, 'the second line', holds, 'second');
    const shown = await page.textContent('pre[aria-labelledby=stdout]');
    check(!/[\u001b\u202e]/.test(shown), 'an escape or a mark of direction is in the page');
    check(await page.evaluate(() => window.acted) === undefined, 'what a task wrote was executed');
  },

  /** Output is followed from a task's start, through changes of the page and a break, to its end. */
  async followsOutput(browser) {
    const [job] = rest;
    const page = await enter(browser);
    const shown = 'pre[aria-labelledby=stdout]';
    const holds = (text) => document.querySelector('pre[aria-labelledby=stdout]').textContent.includes(text);
    let breaks = 1;
    await page.route(/stdout\?follow/, (route) => (breaks-- > 0 ? route.abort() : route.continue()));
    page.mayFail = true;
    await page.goto(`${base}/jobs/${job}/tasks/1`);
    check(await page.locator(`${shown}[data-follow]`).count() === 0, 'the task does not wait');
    await ask('start');
    await until(page, 'the first line, though the first stream broke', holds, 'first');
    check(breaks < 0, 'no stream broke');

    // The next look takes out what is not of the page, and leaves what is followed alone.
    await page.evaluate(() => {
      window.odd = document.createElement('hr');
      document.getElementById('main').append(window.odd);
      mark = null;
    });
    await until(page, 'another page', () => !window.odd.isConnected);
    await ask('second');
    await until(page, 'the second line', holds, 'second');
    check(/first/.test(await page.textContent(shown)), 'what was written is gone');
    await ask('third');
    await until(page, 'the end', () => document.title.includes('finished'));
    await until(page, 'the stored output', (shown) => !document.querySelector(shown).hasAttribute('data-follow'), shown);
    check(/first\s+second\s+third/.test(await page.textContent(shown)), 'the output is not all there');
  },

  /** A page is renewed after somebody was in a field of it, and says that it is gone. */
  async types(browser) {
    const [job] = rest;
    const page = await enter(browser);
    await page.goto(`${base}/jobs`);
    await page.locator('form.filters input').first().focus();
    const looked = page.waitForResponse((answer) => answer.url() === `${base}/jobs` && answer.status() === 200);
    await ask('submit');
    await looked;
    check(!/waits-for-ever/.test(await page.innerText('main')), 'the page changed while somebody wrote');
    await page.evaluate(() => document.activeElement.blur());
    await until(page, 'the new job', () => document.querySelector('main').innerText.includes('waits-for-ever'));

    page.mayFail = true;
    await page.goto(`${base}/jobs/${job}`);
    await ask('forget');
    await until(page, 'a notice', () => /does not come any more/.test(document.getElementById('offline').innerText));
  },

  /** A list that changes leaves the focus, and what is selected, where they are. */
  async keeps(browser) {
    const [job] = rest;
    const page = await enter(browser);
    const entry = (job) => `a.job[href="/jobs/${job}"]`;
    await page.goto(`${base}/jobs`);
    await page.evaluate((entry) => {
      window.entry = document.querySelector(entry);
      getSelection().selectAllChildren(window.entry.querySelector('.name'));
      window.entry.focus();
    }, entry(job));
    const kept = async (when) => {
      const found = await page.evaluate(() => [document.activeElement === window.entry, String(getSelection())]);
      check(found[0], `${when}: the focus is lost`);
      check(found[1] === 'stays-here', `${when}: this is selected: ${found[1]}`);
    };
    await kept('at first');

    const later = await ask('submit');
    await until(page, 'the other job', (entry) => document.querySelector(entry) !== null, entry(later));
    await kept('with another entry above');
    await ask(job);
    const cancelled = (entry) => document.querySelector(entry).closest('li').innerText.includes('cancelled');
    await until(page, 'it is cancelled', cancelled, entry(job));
    await kept('in another state');

    // What has to be made anew, since it goes to another list, has the focus there.
    await page.goto(`${base}/`);
    await page.locator(entry(later)).focus();
    await ask(later);
    const ended = (entry) => document.querySelector(`section[aria-labelledby=ended] ${entry}`) !== null;
    await until(page, 'it is among those that ended', ended, entry(later));
    const there = await page.evaluate(() => document.activeElement.getAttribute('href'));
    check(there === `/jobs/${later}`, `the focus is at ${there}`);
  },

  /** A link of another site leads to what it names, and who is not in yet gets there afterwards. */
  async linked(browser) {
    const [job, second] = rest;
    const wanted = `${base}/jobs/${job}?state=failed#tasks`;
    const there = (url) => url.href === wanted;
    const heading = (page) => page.innerText('h1');

    const stranger = await open(browser);
    await stranger.goto(wanted);
    check(/Who are you/.test(await heading(stranger)), `a stranger sees ${stranger.url()}`);
    await stranger.goto(second);
    await stranger.waitForURL(there);

    const page = await enter(browser);
    const site = createServer((_, answer) =>
      answer.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>x</title><a href="${wanted}">a job</a>`));
    await new Promise((ready) => site.listen(0, ready));
    try {
      const ways = [];
      page.on('framenavigated', (frame) => ways.push(frame.url()));
      // By this name it is another site than the server at 127.0.0.1.
      await page.goto(`http://localhost:${site.address().port}/`);
      await page.getByRole('link').click();
      await page.waitForURL(there);
      check((await heading(page)).includes(`job ${job}`), `the link leads to ${await heading(page)}`);
      check(ways.some((way) => way.startsWith(`${base}/in?to=`)), `the cookie was not kept back: ${ways}`);
    } finally {
      site.close();
    }
  },

  /** A ticket to which nothing answers is not waited for without an end. */
  async knocks(browser) {
    const page = await open(browser);
    page.mayFail = true;
    await page.route((url) => url.pathname === '/in', (route) =>
      (route.request().method() === 'POST' ? route.abort() : route.continue()));
    await page.goto(address);
    await until(page, 'it says so', () => document.querySelector('h1').textContent === 'Nothing answers here.');
  },

  /** A button asks before it cancels, with the keyboard alone. */
  async cancels(browser) {
    const [job] = rest;
    const page = await enter(browser);
    await page.keyboard.press('g');
    await page.keyboard.press('j');
    await page.waitForURL(`${base}/jobs`);

    const reach = async (name) => {
      for (let presses = 0; presses < 80; presses += 1) {
        await page.keyboard.press('Tab');
        const there = await page.evaluate(() => document.activeElement.textContent.trim());
        if (there.startsWith(name)) return page.keyboard.press('Enter');
      }
      throw new Error(`the keyboard does not reach ${name} on ${page.url()}`);
    };
    await reach(`${job} `);
    await page.waitForURL(`${base}/jobs/${job}`);
    await reach('Cancel');
    await page.waitForURL(`${base}/jobs/${job}/cancel`);
    check(/running/.test(await ask('state')), 'it is cancelled before anybody has said so');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${base}/jobs/${job}`);
    await until(page, 'it is cancelled', () => document.title.includes('cancelled'));
  },

  /** Pages say that the master is away, and go on once it is back. */
  async returns(browser) {
    const page = await enter(browser);
    page.mayFail = true;
    await ask('kill');
    await until(page, 'the page says so', () => !document.getElementById('offline').hidden);
    const early = await page.context().newPage();
    early.mayFail = true;
    const answer = await early.goto(`${base}/jobs`);
    check(answer.status() >= 500, `a page of a master that is away: ${answer.status()}`);

    await ask('start');
    await until(page, 'the page goes on', () => document.getElementById('offline').hidden);
    await until(early, 'the page that was opened meanwhile comes', () => document.querySelector('h1').textContent.includes('obs'));
  },

  /** Every page reads, is accessible, and fits: light and dark, narrow and wide, and without script. */
  async pages(browser) {
    const page = await enter(browser);
    const sizes = [[1280, 'light'], [1280, 'dark'], [390, 'light'], [2560, 'light']];
    for (const [width, colorScheme] of sizes) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      for (const path of rest) {
        const answer = await page.goto(base + path);
        check(answer.status() === 200, `${path}: ${answer.status()}`);
        await fits(page);
        check(await page.evaluate(() => window.acted) === undefined, `${path}: a foreign word was executed`);
        if (width !== 2560) await accessible(page);
      }
    }

    const state = await page.context().storageState();
    const plain = await open(browser, { javaScriptEnabled: false, storageState: state });
    for (const path of rest) {
      await plain.goto(base + path);
      check((await plain.innerText('h1')).length > 0, `${path} has no heading without script`);
    }
  },

  /** The form says what would come of a job before there is a button to submit it. */
  async submits(browser) {
    const page = await enter(browser);
    await page.goto(`${base}/submit`);
    await page.getByLabel('Command').fill("sh -c 'exit 0'");
    await page.getByLabel('Tasks, by number').fill('1-4');
    await page.getByLabel('A task takes about').fill('1s');
    await page.getByLabel('All done within').fill('10ms');
    const submit = page.getByRole('button', { name: 'Submit it' });
    const wonder = page.getByRole('button', { name: 'See what would happen' });
    await press(page, wonder);
    const refused = await page.innerText('.said');
    check(/cannot be promised/.test(refused), `the deadline is refused: ${refused}`);
    check(await submit.count() === 0, 'what is refused cannot be submitted');

    await page.getByLabel('All done within').fill('1h');
    await press(page, wonder);
    const taken = await page.innerText('.said');
    check(/4 tasks would be taken/.test(taken), `what would come of it: ${taken}`);
    check(/would be promised/.test(taken), `the promise: ${taken}`);
    await submit.click();
    await page.waitForURL(/\/jobs\/\d+$/);
    await until(page, 'it is done', () => document.title.startsWith('100 %'));
  },

  /** An admin makes a token, which is shown once and as long as it is looked at; it is not revoked without a word. */
  async admits(browser) {
    const page = await enter(browser);
    await page.goto(`${base}/admin`);
    await page.getByRole('link', { name: 'Make a token' }).click();
    await page.waitForURL(`${base}/admin/token`);
    await page.getByLabel('Name').fill('lab 3');
    await stays(page);
    check(await page.getByLabel('Name').inputValue() === 'lab 3', 'what was typed is wiped');
    await press(page, page.getByRole('button', { name: 'Make the token' }));
    const token = await page.innerText('pre.token');
    await stays(page);
    console.log(`token ${token}`);

    await page.getByRole('link', { name: 'Back' }).click();
    await page.getByRole('row').filter({ hasText: 'lab 3' }).getByRole('link', { name: 'Revoke' }).click();
    await page.waitForURL(/\/admin\/tokens\/\d+\/revoke$/);
    await page.getByRole('link', { name: 'No, go back' }).click();
    await page.waitForURL(`${base}/admin`);
    check(/lab 3/.test(await page.innerText('main')), 'the token is not listed');
  },

  /** A token is revoked once a question was answered. */
  async revokes(browser) {
    const [name] = rest;
    const page = await enter(browser);
    await page.goto(`${base}/admin`);
    const link = page.getByRole('row').filter({ hasText: name }).getByRole('link', { name: 'Revoke' });
    await link.click();
    await page.waitForURL(/\/revoke$/);
    check((await page.innerText('main')).includes(name), 'the question does not say which token');
    check(await ask('revoked') === 'false', 'it is revoked before anybody has said so');
    await page.getByRole('button', { name: 'Revoke the token' }).click();
    await page.waitForURL(`${base}/admin`);
    check(await ask('revoked') === 'true', 'it is not revoked');
    check(await link.count() === 0, 'it is still listed');
  },

  /** What was refused says why until somebody goes on. */
  async refuses(browser) {
    const [job] = rest;
    const page = await enter(browser);
    await page.goto(`${base}/jobs/${job}/forget`);
    page.mayFail = true;
    await press(page, page.getByRole('button', { name: 'Forget the job' }));
    check(/is not settled/.test(await page.innerText('main')), 'the reason is missing');
    await stays(page);
  },

  /** The page of a PC follows its owner by itself. */
  async owner(browser) {
    const page = await enter(browser);
    const heading = (words) => until(page, words, (text) => document.querySelector('h1').textContent.includes(text), words);
    await heading('A task runs');
    const born = await page.evaluate(() => (window.born = Math.random()));
    await ask('type');
    await heading('A task has been frozen since');
    check(/^frozen: in-use/.test(await page.title()), `the title: ${await page.title()}`);
    check(/you use the PC/.test(await page.innerText('h1')), 'the reason is missing');
    const rule = page.getByRole('row').filter({ hasText: 'you used it' });
    check(/now/.test(await rule.first().innerText()), 'the rule that holds is not listed');
    await ask('leave');
    await heading('A task runs');
    check(!/now/.test(await rule.first().innerText()), 'the rule still holds on the page');
    check(born === (await page.evaluate(() => window.born)), 'the page was loaded anew');
  },

  /** A pause outlasts the worker, and a button ends it; all of it without a master. */
  async pauses(browser) {
    const page = await enter(browser);
    page.mayFail = true;
    const heading = (words) => until(page, words, (text) => document.querySelector('h1').textContent.includes(text), words);
    const button = (name) => page.getByRole('button', { name });
    await heading('A task runs');
    const done = page.getByRole('row').filter({ hasText: 'done' });
    check(/^1\.1#1/.test(await done.innerText()), 'the ended task is not listed');
    await ask('kill-master');
    await press(page, button('Pause for an hour'));
    await heading('because tasks are paused, until');
    check(/A task has been frozen/.test(await page.innerText('h1')), 'the task is not frozen');
    check(/paused for 1h/.test(await ask('status')), 'the pause does not last an hour');

    await ask('end-worker');
    await heading('No worker runs');
    check(/paused from its start/.test(await page.innerText('main')), 'the pause is not told');
    await ask('start-worker');
    await heading('because tasks are paused, until');
    check(/^1\.1#1/.test(await done.innerText()), 'the ended task is forgotten');
    await press(page, button('Pause for good'));
    await until(page, 'no end', () => !document.querySelector('h1').textContent.includes('until'));
    check(/paused for ever/.test(await ask('status')), 'the pause has an end');
    await press(page, button('Pause for today'));
    await heading('until');
    check(/paused till midnight/.test(await ask('status')), 'the pause does not last until midnight');
    await press(page, button('Let tasks run again'));
    await heading('nothing has stood against them since');
    check(/not paused/.test(await ask('status')), 'the worker is still paused');
  },

  /** Takes the pictures of the documentation. */
  async pictures(browser) {
    const [dir, ...paths] = rest;
    const page = await enter(browser, { deviceScaleFactor: 1, locale: 'en-GB', timezoneId: 'UTC' });
    await page.setViewportSize({ width: 1120, height: 700 });
    for (const named of paths) {
      const [name, path] = named.split('=');
      await page.goto(base + path);
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${dir}/${name}.png` });
    }
  },
};

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
try {
  await scenarios[scenario](browser);
  check(complaints.length === 0, complaints.join('\n'));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await browser.close();
  process.stdin.destroy();
}
