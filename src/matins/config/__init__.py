"""`matins.yaml`: the records that it defines, their locations in the text, and the changes that it makes."""
