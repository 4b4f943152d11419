int placeholder_of_pair;
