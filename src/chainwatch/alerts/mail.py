"""E-mail, plain text, by the machine's sendmail or by SMTP."""

from __future__ import annotations

import getpass
import os
import smtplib
import socket
import ssl
import subprocess
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path

from chainwatch.alerts.channel import Answer, Told, TryLater, Unwelcome
from chainwatch.alerts.message import Message, plain
from chainwatch.config.alerts import Email
from chainwatch.config.secrets import SecretUnusable
from chainwatch.model.text import clean


def compose(settings: Email, messages: Sequence[Message], summary: str, now: datetime) -> EmailMessage:
    """One mail. A reminder and a recovery answer the alert's own mail, so that they stand in one thread."""
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = clean(f"[chainwatch] {summary}", 180, one_line=True)
    mail["From"] = settings.sender or f"{getpass.getuser()}@{socket.getfqdn()}"
    mail["To"] = ", ".join(settings.to)
    mail["Date"] = format_datetime(now)
    mail["Auto-Submitted"] = "auto-generated"
    first = messages[0]
    thread = f"<chainwatch-{first.notice}-{int(first.created.timestamp())}@{socket.getfqdn()}>"
    if len(messages) == 1 and first.tone.value not in {"reminder", "recovered"}:
        mail["Message-ID"] = thread
    elif len(messages) == 1:
        mail["In-Reply-To"] = mail["References"] = thread
    mail.set_content("\n\n".join([summary, *map(plain, messages)] if len(messages) > 1 else [plain(first)]))
    return mail


class MailChannel:
    """Implements `Channel`."""

    def __init__(self, name: str, settings: Email) -> None:
        self.name, self._settings = name, settings

    def tell(self, messages: Sequence[Message], summary: str, now: datetime) -> Answer:
        mail = compose(self._settings, messages, summary, now)
        return self._by_smtp(mail) if self._settings.smtp else self._by_sendmail(mail)

    def _by_sendmail(self, mail: EmailMessage) -> Answer:
        program = self._settings.sendmail or Path("/usr/sbin/sendmail")
        # -oi: a line with a single dot is text. The addresses come after --, so none of them is an option.
        command = [str(program), "-oi", "--", *self._settings.to]
        environment = {key: os.environ[key] for key in ("PATH", "HOME", "USER", "LOGNAME") if key in os.environ}
        try:
            done = subprocess.run(
                command,
                input=mail.as_bytes(),
                capture_output=True,
                timeout=self._settings.deadline.total_seconds(),
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return TryLater(f"{program} did not end within {self._settings.deadline.total_seconds():g} s")
        except OSError as error:
            return TryLater(f"cannot run {program}: {error.strerror}; name an SMTP server with smtp: instead")
        if done.returncode == 0:
            return Told()
        said = clean(done.stderr.decode("utf-8", "replace"), 200, one_line=True)
        return TryLater(f"{program} ended with {done.returncode}{f': {said}' if said else ''}")

    def _by_smtp(self, mail: EmailMessage) -> Answer:
        settings = self._settings
        default = 465 if settings.tls == "tls" else 587 if settings.user else 25
        host, _, port = (settings.smtp or "").partition(":")
        try:
            password = settings.secret("password", self.name) if settings.user else ""
            server = self._connected(host, int(port or default))
            try:
                if settings.tls == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if settings.user:
                    server.login(settings.user, password)
                server.send_message(mail)
            finally:
                _part(server)
            return Told()
        except SecretUnusable as error:
            return TryLater(str(error))
        except smtplib.SMTPRecipientsRefused as error:
            who = ", ".join(error.recipients)
            return TryLater(f"{host} accepts none of the addresses {who}")
        except smtplib.SMTPAuthenticationError:
            return TryLater(f"{host} does not accept the user and password")
        except smtplib.SMTPDataError as error:
            return (Unwelcome if error.smtp_code >= 500 else TryLater)(f"{host} refused the mail: {error.smtp_code}")
        except smtplib.SMTPNotSupportedError:
            return TryLater(f"{host} does not offer STARTTLS or this login; see tls: in the channel")
        except smtplib.SMTPException as error:
            return TryLater(f"{host}: {type(error).__name__}")
        except ssl.SSLError as error:
            return TryLater(f"no safe connection to {host}: {error.reason}")
        except TimeoutError:
            return TryLater(f"{host} did not answer within {settings.deadline.total_seconds():g} s")
        except (OSError, ValueError) as error:
            return TryLater(f"no connection to {host}: {getattr(error, 'strerror', None) or type(error).__name__}")

    def _connected(self, host: str, port: int) -> smtplib.SMTP:
        seconds = self._settings.deadline.total_seconds()
        if self._settings.tls == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=seconds, context=ssl.create_default_context())
        return smtplib.SMTP(host, port, timeout=seconds)


def _part(server: smtplib.SMTP) -> None:
    """Say goodbye. What the server answers to that changes nothing: the mail is taken, or it is not."""
    try:
        server.quit()
    except (smtplib.SMTPException, OSError):
        server.close()
