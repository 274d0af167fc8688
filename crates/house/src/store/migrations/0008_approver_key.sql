-- The key that signs changes of the approver in the audit, as JSON; none before this version has seen the passphrase.
ALTER TABLE approver ADD COLUMN key TEXT;
