-- What proves the passphrase beside its digest, where nobody can prove the digest itself since a key was lost, as JSON.
ALTER TABLE approver ADD COLUMN doubt TEXT;
